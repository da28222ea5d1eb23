import random, datetime as dt
r=random.Random(77)
clin=["Cardiology","Dermatology","ENT","Eye clinic","Fracture clinic","Physio","Paediatrics"]
rows=[]
def row(i,p,age,sex,pc):
    d=dt.date(2023,1,1)+dt.timedelta(days=r.randrange(730))
    ds=d.strftime("%d/%m/%Y") if r.random()<.85 else (d.isoformat() if r.random()<.5 else d.strftime("%d-%b-%y"))
    wait=int(r.expovariate(1/40)); 
    att=r.choices(["Y","N","DNA",""],[80,8,10,2])[0]
    cost=r.gammavariate(2,90)
    c=f"£{cost*6:,.2f}" if r.random()<.02 else f"£{cost:,.2f}"
    if r.random()<.03: c="n/a"
    return f'A{i:06},{p},{r.choices(clin,[9,8,4,7,5,12,3])[0]},{ds},{r.randrange(8,18):02}:{r.choice(["00","15","30","45"])},{att},{age if r.random()<.98 else ""},{sex},{wait if r.random()<.97 else "unknown"},"{c}",{pc}'
i=0
for p in range(3800):
    n=min(40,1+int(r.expovariate(1/2.2)))
    nhs=f"{r.randrange(400,800)} {r.randrange(1000):03} {r.randrange(10000):04}"
    age=int(r.triangular(0,99,55)); sex=r.choices(["F","M","U",""],[52,45,1,2])[0]; pc=r.choice(["LS1","LS2","LS6","BD1","HX3","WF10"])+f" {r.randrange(1,9)}{r.choice('ABDEF')}{r.choice('ABDEF')}"
    for _ in range(n if p!=17 else 420):
        i+=1; rows.append(row(i,nhs,age,sex,pc))
r.shuffle(rows)
open("appointments.csv","w",encoding="utf-8-sig",newline="").write("\r\n".join(["Appt ID,NHS No,Clinic,Appt Date,Appt time,Attended?,Age,Sex,Wait (days),Cost,Postcode"]+rows)+"\r\n")
print(len(rows))
