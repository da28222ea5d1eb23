#!/bin/sh
# backup.sh WORKSPACE FOLDER: a new folder in FOLDER with all that a workspace needs, and the ledger's head as a checkpoint.
# Copy it to another machine afterwards. ledger.head stays behind on purpose: it tells an old copy from the newest one.
set -eu
umask 077
siloquent=${SILOQUENT:-/opt/siloquent/bin/siloquent}
workspace=$1
target=$2/$(date -u +%Y-%m-%dT%H%M%SZ)

mkdir -p "$target"
# The checkpoint first: whatever is copied after it holds at least what it says.
"$siloquent" --workspace "$workspace" ledger checkpoint -o "$target/checkpoint.json"
for database in ledger server; do
    if [ -f "$workspace/$database.sqlite" ]; then
        sqlite3 "$workspace/$database.sqlite" "VACUUM INTO '$target/$database.sqlite'"
    fi
done
# A ledger in PostgreSQL: pg_dump names its database as the workspace does.
url=$(sed -n 's/^url = "postgresql+psycopg:\(.*\)"/postgresql:\1/p' "$workspace/siloquent.toml")
if [ -n "$url" ]; then
    pg_dump --format=custom --file="$target/ledger.dump" "$url"
fi
for kept in siloquent.toml ledger.marks schemas releases collections catalogue bundle uploads; do
    if [ -e "$workspace/$kept" ]; then
        cp -R "$workspace/$kept" "$target/"
    fi
done
echo "$target"
