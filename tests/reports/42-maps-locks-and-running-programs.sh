#!/bin/bash
# git-like maps held while directories are read, SIGBUS at a cut map only, ETXTBSY, flock, POSIX and OFD locks between processes, leases, inotify.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
python3 - $M <<'Y' || wrong "$(tail -1 $T/err)"
import os,sys,mmap,fcntl,struct,subprocess,time,signal,shutil,ctypes
m=sys.argv[1]; os.chdir(m)
open('pack','wb').write(b'PACK'*50000); f=os.open('pack',os.O_RDONLY); a=mmap.mmap(f,0,prot=mmap.PROT_READ,flags=mmap.MAP_PRIVATE); os.close(f)
for i in range(300): open(f'n{i}','w').write('x'); os.listdir('.'); os.stat('pack'); assert a[(i*613)%200000-4 if i*613%200000>4 else 0:][:1] in b'PACK'
assert a[:]==b'PACK'*50000; os.rename('pack','pack2'); os.unlink('pack2'); os.listdir('.'); assert a[199996:]==b'PACK','map of a removed file'
def child(fn):
    p=os.fork()
    if p==0:
        try: r=fn()
        except BaseException as e: sys.stderr.write(repr(e)+'\n'); r=9
        os._exit(r or 0)
    return os.waitpid(p,0)[1]
def bus():
    f=os.open('cut',os.O_CREAT|os.O_RDWR|os.O_TRUNC); os.ftruncate(f,40960); x=mmap.mmap(f,40960); x[0]=1; x[40959]=2; os.ftruncate(f,4096); assert x[0]==1; os.ftruncate(f,40960); assert x[40959]==0,'old bytes after cut and growth'; os.ftruncate(f,100); x[40000]; return 0
s=child(bus); assert os.WIFSIGNALED(s) and os.WTERMSIG(s)==signal.SIGBUS,('no SIGBUS beyond the end',s)
shutil.copy('/bin/sleep','prog'); p=subprocess.Popen(['./prog','5'])
time.sleep(.3)
try: open('prog','r+b'); sys.exit('a running program was opened for writing')
except OSError as e: assert e.errno==26,e
w=os.open('prog2',os.O_CREAT|os.O_RDWR,0o755); os.write(w,open('/bin/true','rb').read())
try: subprocess.run(['./prog2']); sys.exit('a program open for writing was run')
except OSError as e: assert e.errno==26,e
os.close(w); subprocess.run(['./prog2'],check=True); os.unlink('prog'); shutil.copy('/bin/sleep','prog'); p.kill(); p.wait()
def tryl(kind):
    f=os.open('lk',os.O_RDWR|os.O_CREAT)
    try:
        if kind=='flock': fcntl.flock(f,fcntl.LOCK_EX|fcntl.LOCK_NB)
        else: fcntl.fcntl(f,37 if kind=='ofd' else fcntl.F_SETLK,struct.pack('hhqqi4x',fcntl.F_WRLCK,0,100,10,0))
        return 1
    except OSError as e: assert e.errno in(11,13),e; return 0
f=os.open('lk',os.O_RDWR|os.O_CREAT); os.write(f,b'x'*300)
fcntl.flock(f,fcntl.LOCK_EX); assert child(lambda:tryl('flock'))==0,'flock'; fcntl.flock(f,fcntl.LOCK_UN); assert child(lambda:tryl('flock'))==256
for cmd,k in ((fcntl.F_SETLK,'posix'),(37,'ofd')):
    fcntl.fcntl(f,cmd,struct.pack('hhqqi4x',fcntl.F_WRLCK,0,105,1,0)); assert child(lambda:tryl(k))==0,k; fcntl.fcntl(f,cmd,struct.pack('hhqqi4x',fcntl.F_UNLCK,0,0,0,0)); assert child(lambda:tryl(k))==256,k
q=subprocess.Popen(['inotifywait','-qm','-t','3','--format','%e %f','.'],stdout=subprocess.PIPE); time.sleep(.7); open('seen','w').write('1'); os.rename('seen','seen2'); os.unlink('seen2'); o=q.communicate()[0].decode()
for e in ('CREATE seen','MODIFY seen','MOVED_TO seen2','DELETE seen2'): assert e in o,(e,o)
subprocess.run('git init -q g && cd g && for i in $(seq 300); do seq $i >f$i; done && git add . && git -c user.name=a -c user.email=a@b commit -qm 1 && git gc -q && git repack -adq && git fsck --strict',shell=True,check=True,stderr=subprocess.DEVNULL)
Y
node -e "const fs=require('fs');let n=0;const w=fs.watch('$M',()=>n++);setTimeout(()=>fs.writeFileSync('$M/nw','x'),300);setTimeout(()=>{w.close();process.exit(n?0:1)},1500)" || wrong "fs.watch of Node tells nothing"
right "maps, locks, programs, watches"
