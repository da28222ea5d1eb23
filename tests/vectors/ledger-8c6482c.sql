BEGIN TRANSACTION;
CREATE TABLE account (
	name TEXT NOT NULL, 
	parent TEXT, 
	accountant TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	adjacency TEXT NOT NULL, 
	limit_amount BIGINT NOT NULL, 
	limit_delta BIGINT NOT NULL, 
	spent_amount BIGINT NOT NULL, 
	spent_delta BIGINT NOT NULL, 
	disclosures BOOLEAN NOT NULL, 
	successor TEXT, 
	PRIMARY KEY (name), 
	CONSTRAINT amount_within_limit CHECK (0 <= spent_amount AND spent_amount <= limit_amount), 
	CONSTRAINT delta_within_limit CHECK (0 <= spent_delta AND spent_delta <= limit_delta), 
	FOREIGN KEY(parent) REFERENCES account (name)
);
INSERT INTO "account" VALUES('visits@1',NULL,'pure','row','add-remove',200,0,64,0,0,NULL);
INSERT INTO "account" VALUES('staff@1',NULL,'pure','row','add-remove',100,0,0,0,0,NULL);
CREATE TABLE answer (
	seq INTEGER NOT NULL, 
	permit BIGINT NOT NULL, 
	"table" TEXT NOT NULL, 
	payload BLOB NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (permit)
);
INSERT INTO "answer" VALUES(4,3,'visits@1',X'616E737765722031');
INSERT INTO "answer" VALUES(6,5,'visits@1',X'616E737765722032');
CREATE TABLE entry (
	seq INTEGER NOT NULL, 
	account TEXT NOT NULL, 
	body TEXT NOT NULL, 
	prev TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "entry" VALUES(1,'visits@1','{"account":"visits@1","accountant":"pure","adjacency":"add-remove","at":"2026-11-29T09:12:16Z","disclosures":0,"kind":"open-account","limit":[100,0],"parent":"","unit":"row"}','e8f6051d97801af017bf8694d87f308df3cb4870b27ad0805ad088e7b6fa5d60','841ccf9b1f80f26cbc6ab3a38d712aec943f5832fe4cfdb6c6162e86f9c8adb6');
INSERT INTO "entry" VALUES(2,'staff@1','{"account":"staff@1","accountant":"pure","adjacency":"add-remove","at":"2026-11-29T09:12:16Z","disclosures":0,"kind":"open-account","limit":[100,0],"parent":"","unit":"row"}','841ccf9b1f80f26cbc6ab3a38d712aec943f5832fe4cfdb6c6162e86f9c8adb6','a35f8fb6d973003aa758144c9f80d4a41d9dbc975da928f3d439b91e29daf6c3');
INSERT INTO "entry" VALUES(3,'visits@1','{"account":"visits@1","at":"2026-11-29T09:12:16Z","before":[0,0],"cost":[31,0],"digest":"sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","event":"{\"event\":\"discrete-laplace/1\",\"l1\":1,\"scale\":\"1000000000/31\"}","key":"question 1","kind":"reserve","table_before":[0,0]}','a35f8fb6d973003aa758144c9f80d4a41d9dbc975da928f3d439b91e29daf6c3','3249a9aeac4604ae995085212949f74da653aea552643cb6eab37a61e8136e85');
INSERT INTO "entry" VALUES(4,'visits@1','{"account":"visits@1","at":"2026-11-29T09:12:16Z","before":[0,0],"cost":[31,0],"event":"{\"event\":\"discrete-laplace/1\",\"l1\":1,\"scale\":\"1000000000/31\"}","key":"question 1","kind":"settle","payload":"6c94683a02bdda38721278e54660a42216fb0f28ea9c4677d0e6f03ebe37b1b5","permit":3,"table_before":[0,0]}','3249a9aeac4604ae995085212949f74da653aea552643cb6eab37a61e8136e85','d05f438462b0565795370cf66db89a05925532b3cd561f8fb6a78b40e61ecb3f');
INSERT INTO "entry" VALUES(5,'visits@1','{"account":"visits@1","at":"2026-11-29T09:12:16Z","before":[31,0],"cost":[32,0],"digest":"sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","event":"{\"event\":\"discrete-laplace/1\",\"l1\":1,\"scale\":\"31250000/1\"}","key":"question 2","kind":"reserve","table_before":[31,0]}','d05f438462b0565795370cf66db89a05925532b3cd561f8fb6a78b40e61ecb3f','1b4a89777b74322615b787f70b943af53db3ac52be6cf0b82a7148f21695de96');
INSERT INTO "entry" VALUES(6,'visits@1','{"account":"visits@1","at":"2026-11-29T09:12:16Z","before":[31,0],"cost":[32,0],"event":"{\"event\":\"discrete-laplace/1\",\"l1\":1,\"scale\":\"31250000/1\"}","key":"question 2","kind":"settle","payload":"f05116872230f0b18715d85cbe21e607f6fc49a8e7de8f7b7eacef1ad7dd419a","permit":5,"table_before":[31,0]}','1b4a89777b74322615b787f70b943af53db3ac52be6cf0b82a7148f21695de96','ef2ca16fc6858466bbf641740a07b55d747ba343dacf40c31380e23551d549c8');
INSERT INTO "entry" VALUES(7,'visits@1','{"account":"visits@1","at":"2026-11-29T09:12:16Z","cost":[1000000000,0],"digest":"sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","event":"discrete-laplace/1","kind":"deny","short":"visits@1"}','ef2ca16fc6858466bbf641740a07b55d747ba343dacf40c31380e23551d549c8','38f6bc800e0a55ea1464a8849e5ce88abfe1900e1033ef6b8d618885870fe05f');
INSERT INTO "entry" VALUES(8,'visits@1','{"account":"visits@1","at":"2026-11-29T09:12:16Z","before":[63,0],"cost":[1,0],"digest":"sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","event":"{\"event\":\"discrete-laplace/1\",\"l1\":1,\"scale\":\"1000000000/1\"}","key":"open","kind":"reserve","table_before":[63,0]}','38f6bc800e0a55ea1464a8849e5ce88abfe1900e1033ef6b8d618885870fe05f','5b95b480e5ad3c00642046736f2ff44ab46027d3eca8b35add141a8f729702ff');
INSERT INTO "entry" VALUES(9,'visits@1','{"account":"visits@1","at":"2026-11-29T09:12:16Z","kind":"set-limit","limit":[200,0]}','5b95b480e5ad3c00642046736f2ff44ab46027d3eca8b35add141a8f729702ff','e3ec6c90dbb235920f1b7a7062353a5da6c4c0c068e2504ae7fbd1ebd91c7fa8');
CREATE TABLE ledger (
	one SMALLINT NOT NULL CHECK (one = 1), 
	id TEXT NOT NULL, 
	format INTEGER NOT NULL, 
	PRIMARY KEY (one)
);
INSERT INTO "ledger" VALUES(1,'9a9df7becde91e9ca5bfef05d1c9e2ed',1);
CREATE TABLE permit (
	seq INTEGER NOT NULL, 
	account TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE ("key")
);
INSERT INTO "permit" VALUES(3,'visits@1','question 1','sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd');
INSERT INTO "permit" VALUES(5,'visits@1','question 2','sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd');
INSERT INTO "permit" VALUES(8,'visits@1','open','sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd');
CREATE INDEX entry_account ON entry (account, seq);
CREATE INDEX answer_table ON answer ("table", seq);
CREATE TRIGGER "ledger_no_update" BEFORE UPDATE ON "ledger" BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER "ledger_no_delete" BEFORE DELETE ON "ledger" BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER "entry_no_update" BEFORE UPDATE ON "entry" BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER "entry_no_delete" BEFORE DELETE ON "entry" BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER "permit_no_update" BEFORE UPDATE ON "permit" BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER "permit_no_delete" BEFORE DELETE ON "permit" BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER "answer_no_update" BEFORE UPDATE ON "answer" BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER "answer_no_delete" BEFORE DELETE ON "answer" BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
COMMIT;
