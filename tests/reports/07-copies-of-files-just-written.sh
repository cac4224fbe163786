#!/bin/bash
# Copies of files that were written a moment ago, by cp of every kind and many at a time, have no zeros in place of data.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
$ZFS set recordsize=16k $P
cat >$T/w.py <<'Y'
import os,sys,subprocess,random,time
m,w=sys.argv[1],int(sys.argv[2]); r=random.Random(w); end=time.time()+25; n=0
kinds=[['--sparse=always'],['--sparse=auto'],['--reflink=auto'],['--reflink=never'],['--reflink=never','--sparse=always'],['-a']]
while time.time()<end:
    s=r.choice([1,100,4095,16384,70000,131073,1000000]); b=r.randbytes(1+s//8)*8
    p=f'{m}/{w}.0'
    with open(p,'wb') as f:
        if r.random()<.3: f.seek(r.randrange(1,300000))
        o=f.tell(); f.write(b)
    want=bytes(o)+b
    for k in range(1,5):
        q=f'{m}/{w}.{k}'
        subprocess.run(['cp']+r.choice(kinds)+[f'{m}/{w}.{r.randrange(k)}',q],check=True); n+=1
        if open(q,'rb').read()!=want: print('copy differs',q,len(want),o); sys.exit(1)
    if r.random()<.2: subprocess.run(['tar','-S','-C',m,'-cf',f'{m}/{w}.tar',f'{w}.4'],check=True); assert subprocess.check_output(['tar','-xOf',f'{m}/{w}.tar'])==want,'tar -S'
    for k in range(5): os.unlink(f'{m}/{w}.{k}')
print(n)
Y
for w in 1 2 3 4 5 6; do python3 $T/w.py $M $w >$T/o$w & W="${W:-} $!"; done
for p in $W; do wait $p || wrong "$(cat $T/o* | grep differs | head -1) $(tail -1 $T/err)"; done
right "$(cat $T/o* | paste -sd+ | bc 2>/dev/null || cat $T/o* | wc -l) copies equal"
