#!/bin/bash
# A Slurm of one host with several nodes, for demonstrations and tests, in a private folder.
#
#   slurm.sh start FOLDER PORT NODES CPUS   start it; NODES nodes of CPUS processors each, whatever the host has
#   slurm.sh stop FOLDER                    cancel its jobs and stop it, by the process ids in the folder
#
# PORT to PORT+NODES must be free. Needs the packages of deploy/README.md. SLURM_CONF=FOLDER/etc/slurm.conf selects it for
# every Slurm command. Started by root it belongs to the account slurm and runs jobs as their users, and only root and
# slurm may make reservations; started by anybody else it is all that user's, who may make them.
set -eu

usage() { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
act=$1 folder=$2
export SLURM_CONF=$folder/etc/slurm.conf
for each in munged slurmctld slurmd sinfo; do
    command -v $each > /dev/null || PATH=$PATH:/usr/sbin:/sbin command -v $each > /dev/null \
        || { echo "there is no $each: apt-get install slurm-wlm slurmctld slurmd slurm-client munge" >&2; exit 1; }
done
PATH=$PATH:/usr/sbin:/sbin

stop() {
    local file pid
    scancel --state=PENDING,RUNNING,SUSPENDED > /dev/null 2>&1 || true
    for _ in $(seq 40); do [ -n "$(squeue -h 2> /dev/null)" ] || break; sleep 0.25; done
    for file in "$folder"/run/slurmd-*.pid "$folder"/run/slurmctld.pid "$folder"/munge/munged.pid; do
        [ -s "$file" ] || continue
        pid=$(cat "$file")
        [ ! -d "/proc/$pid" ] || kill "$pid"
        for _ in $(seq 40); do [ -d "/proc/$pid" ] || break; sleep 0.1; done
        [ ! -d "/proc/$pid" ] || kill -9 "$pid"
        rm -f "$file"
    done
}

case $act in
stop) stop; exit 0 ;;
start) [ $# -eq 5 ] || usage ;;
*) usage ;;
esac

port=$3 nodes=$4 cpus=$5
[ ! -e "$SLURM_CONF" ] || { echo "$folder is in use: stop it and remove the folder first" >&2; exit 1; }
owner=$(id -un) munge=$(id -un)
if [ "$owner" = root ]; then owner=slurm munge=munge; fi
as() { local user=$1; shift; if [ "$user" = "$(id -un)" ]; then "$@"; else runuser -u "$user" -- "$@"; fi; }

names=n[1-$nodes] ports=[$((port + 1))-$((port + nodes))]
if [ "$nodes" = 1 ]; then names=n1 ports=$((port + 1)); fi

mkdir -p "$folder"/{etc,state,log,run}
chmod 755 "$folder" "$folder/etc"
for i in $(seq "$nodes"); do mkdir -p "$folder/spool/n$i"; done
install -d -m 711 "$folder/munge"
head -c 1024 /dev/urandom > "$folder/munge/munge.key"; chmod 400 "$folder/munge/munge.key"
if [ "$(id -u)" = 0 ]; then
    chown "$owner:" "$folder"/{state,log,run}; chown munge: "$folder/munge" "$folder/munge/munge.key"
fi
# slurmd wants a cgroup plugin even where it uses none; this one is content without a hierarchy.
echo CgroupPlugin=cgroup/v1 > "$folder/etc/cgroup.conf"
cat > "$SLURM_CONF" <<X
ClusterName=demo
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$owner
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge/socket
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmdSpoolDir=$folder/spool/%n
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1,bf_resolution=1,bf_continue
SlurmdParameters=config_overrides
ReturnToService=1
SlurmdTimeout=15
KillWait=2
MinJobAge=300
JobRequeue=0
NodeName=$names NodeHostname=localhost NodeAddr=127.0.0.1 Port=$ports CPUs=$cpus RealMemory=1000 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES DefaultTime=10 MaxTime=INFINITE State=UP
X
as "$munge" munged --socket="$folder/munge/socket" --key-file="$folder/munge/munge.key" \
    --pid-file="$folder/munge/munged.pid" --log-file="$folder/munge/munged.log" --seed-file="$folder/munge/munged.seed"
slurmctld -f "$SLURM_CONF"
for i in $(seq "$nodes"); do slurmd -N "n$i" -f "$SLURM_CONF" 2> "$folder/log/slurmd-n$i.start"; done
for _ in $(seq 150); do
    [ "$(sinfo -h -t idle -o %D 2> /dev/null)" = "$nodes" ] && exit 0
    sleep 0.1
done
echo "not all nodes are idle: see $folder/log" >&2
stop
exit 1
