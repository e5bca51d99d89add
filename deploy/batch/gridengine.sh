#!/bin/bash
# A Grid Engine of one host, for demonstrations and tests, in a private folder.
#
#   gridengine.sh start FOLDER PORT SLOTS USER...   start it; USERs may make reservations
#   gridengine.sh stop FOLDER                       stop it, by the process ids in the folder
#
# PORT and PORT+1 must be free. Needs the packages of deploy/README.md; the system's own Grid Engine, if there is one,
# is not touched. Started by root it runs jobs as their users; started by anybody else it runs that user's jobs only.
set -eu

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
act=$1 folder=$2
export SGE_ROOT=$folder/root SGE_CELL=default SGE_ARCH SGE_QMASTER_PORT SGE_EXECD_PORT
SGE_ARCH=$(/usr/share/gridengine/util/arch)
bin=/usr/lib/gridengine
[ -x $bin/sge_qmaster ] || { echo "there is no sge_qmaster: apt-get install gridengine-master" >&2; exit 1; }
[ -x $bin/sge_execd ] || { echo "there is no sge_execd: apt-get install gridengine-exec" >&2; exit 1; }

stop() {
    local name pid
    for name in execd qmaster; do
        [ -s "$folder/$name.pid" ] || continue
        pid=$(cat "$folder/$name.pid")
        if [ -d "/proc/$pid" ]; then
            kill "$pid"
            for _ in $(seq 60); do [ -d "/proc/$pid" ] || break; sleep 0.25; done
            [ ! -d "/proc/$pid" ] || kill -9 "$pid"
        fi
        rm -f "$folder/$name.pid"
    done
}

# The daemons' own pid files, by the folders they run in.
remember() {
    local name=$1 found; shift
    for _ in $(seq 80); do
        for found in "$@"; do [ ! -s "$found" ] || { cp "$found" "$folder/$name.pid"; return; }; done
        sleep 0.1
    done
    echo "$name did not start: see $folder/spool and /tmp/*_messages*" >&2; stop; exit 1
}

case $act in
stop)
    [ -s "$folder/ports" ] || exit 0
    read -r SGE_QMASTER_PORT SGE_EXECD_PORT < "$folder/ports"
    stop
    exit 0 ;;
start) [ $# -ge 4 ] || usage ;;
*) usage ;;
esac

port=$3 slots=$4; shift 4
[ ! -e "$folder/ports" ] || { echo "$folder is in use: stop it and remove the folder first" >&2; exit 1; }
SGE_QMASTER_PORT=$port SGE_EXECD_PORT=$((port + 1))
host=$(hostname)
admin=$(id -un) owner=none minimum=0
[ "$admin" = root ] || owner=$admin
common=$SGE_ROOT/default/common
mkdir -p "$common" "$folder"/spool/{qmaster,execd,db}
chmod 755 "$folder" "$SGE_ROOT"
for each in bin lib utilbin util; do ln -s /var/lib/gridengine/$each "$SGE_ROOT/$each"; done
echo "$SGE_QMASTER_PORT $SGE_EXECD_PORT" > "$folder/ports"
echo "$host" > "$common/act_qmaster"
# A name that stands beside "localhost" for 127.0.0.1 is refused without this.
echo "$host localhost" > "$common/host_aliases"
cat > "$common/bootstrap" <<X
admin_user              $owner
default_domain          none
ignore_fqdn             false
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         $folder/spool/db
binary_path             $SGE_ROOT/bin
qmaster_spool_dir       $folder/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
X
/usr/share/gridengine/scripts/init_cluster "$SGE_ROOT" default "$folder/spool/db" "$admin" > "$folder/init.log"
$bin/sge_qmaster
remember qmaster "$folder"/spool/qmaster/qmaster.pid
for _ in $(seq 80); do $bin/qconf -sm > /dev/null 2>&1 && break; sleep 0.1; done

work=$folder/work; mkdir -p "$work"
{
    $bin/qconf -ah "$host" || true # qmaster may have made its own host an administration host already
    $bin/qconf -as "$host"
    printf 'group_name @allhosts\nhostlist %s\n' "$host" > "$work/hosts"; $bin/qconf -Ahgrp "$work/hosts"
    printf '%s\n' 'pe_name mpi' 'slots 9999' 'user_lists NONE' 'xuser_lists NONE' 'start_proc_args NONE' \
        'stop_proc_args NONE' 'allocation_rule $fill_up' 'control_slaves TRUE' 'job_is_first_task TRUE' \
        'urgency_slots min' 'accounting_summary FALSE' 'qsort_args NONE' > "$work/pe"; $bin/qconf -Ap "$work/pe"
    $bin/qconf -sq | sed -e 's/^qname.*/qname all.q/' -e 's/^hostlist.*/hostlist @allhosts/' \
        -e "s/^slots.*/slots $slots/" -e 's/^pe_list.*/pe_list mpi/' -e 's/^shell .*/shell \/bin\/sh/' \
        -e 's/^load_thresholds.*/load_thresholds NONE/' > "$work/queue"; $bin/qconf -Aq "$work/queue"
    $bin/qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' \
        -e 's/^flush_submit_sec.*/flush_submit_sec 1/' -e 's/^flush_finish_sec.*/flush_finish_sec 1/' \
        -e 's/^job_load_adjustments.*/job_load_adjustments NONE/' \
        -e 's/^load_adjustment_decay_time.*/load_adjustment_decay_time 0:0:0/' \
        -e 's/^max_reservation.*/max_reservation 100/' \
        -e 's/^default_duration.*/default_duration 0:10:0/' > "$work/scheduler"; $bin/qconf -Msconf "$work/scheduler"
    $bin/qconf -sconf global | sed -e "s|^execd_spool_dir.*|execd_spool_dir $folder/spool/execd|" \
        -e "s/^min_uid.*/min_uid $minimum/" -e "s/^min_gid.*/min_gid $minimum/" \
        -e 's/^load_report_time.*/load_report_time 00:00:05/' -e 's/^max_unheard.*/max_unheard 00:00:30/' \
        -e 's/^mailer.*/mailer \/bin\/true/' > "$work/global"; $bin/qconf -Mconf "$work/global"
    for user in "$@"; do $bin/qconf -au "$user" arusers; done
} > "$folder/setup.log" 2>&1 || { cat "$folder/setup.log" >&2; stop; exit 1; }
$bin/sge_execd
# Its folder is called by whatever name the address leads back to; it is there soon.
for _ in $(seq 50); do ls "$folder"/spool/execd/*/execd.pid > /dev/null 2>&1 && break; sleep 0.1; done
remember execd "$folder"/spool/execd/*/execd.pid
for _ in $(seq 150); do
    # A queue instance without an "au" (alarm, unknown) has heard from its host.
    $bin/qstat -f 2>/dev/null | awk '$1 ~ /^all\.q@/ && NF == 5 { ready = 1 } END { exit !ready }' && exit 0
    sleep 0.1
done
echo "the host does not report: see $folder/spool/execd" >&2
stop
exit 1
