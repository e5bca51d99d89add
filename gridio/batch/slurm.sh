# A Slurm in its users' own commands (observed with 22.05). Its reservations are for operators unless the site has decided
# otherwise; where they are not for this login, b_set and b_room say so in Slurm's words.
# b_queue: a partition, or empty.

b_programs='scontrol squeue sinfo sbatch scancel'

b_show() { b_all=$(scontrol -o show reservations 2>&1) || b_fail "scontrol: $b_all"; printf '%s\n' "$b_all"; }
b_list() { b_found=$(b_show) || exit 1; printf '%s\n' "$b_found" | grep '^ReservationName=gur\.' || :; }

# When what we may see ends, and how many nodes there are.
b_ends() { b_show; squeue -h -t RUNNING -o 'EndTime=%e'; }
b_size() {
    if [ -n "$b_queue" ]; then sinfo -h -o '%D' -p "$b_queue"; else sinfo -h -o '%D'; fi
}

# b_set NAME START END LENGTH MIN MAX. Where fewer nodes are free Slurm gives those, without a word; so they are counted.
b_set() {
    b_wanted=$1 b_least=$5
    set -- starttime="$2" endtime="$3" nodecnt="$6" users="$b_user"
    [ -z "$b_queue" ] || set -- partitionname="$b_queue" "$@"
    b_said=$(scontrol create reservation reservationname="$b_wanted" "$@" 2>&1) \
        || { printf 'no %s\n' "$(b_line "$b_said")"; return; }
    b_said=$(scontrol -o show reservation "$b_wanted" 2>&1)
    b_nodes=$(printf '%s\n' "$b_said" | sed -n 's/.* NodeCnt=\([0-9][0-9]*\).*/\1/p')
    if [ "${b_nodes:-0}" -ge "$b_least" ]; then echo "set $b_nodes"; return; fi
    b_drop "$b_wanted"
    printf 'no only %s nodes\n' "${b_nodes:-0}"
}

# b_room START END LENGTH MIN MAX: set one and delete it again; b_sweep finds what is left when the shell is killed.
b_room() {
    b_test=gurt.$(date +%s).$$
    b_answer=$(b_set "$b_test" "$@")
    case $b_answer in
    set*) b_drop "$b_test"; echo "room ${b_answer#set }" ;;
    *) printf '%s\n' "$b_answer" ;;
    esac
}
b_sweep() {
    b_found=$(b_show) || return 0
    printf '%s\n' "$b_found" | sed -n 's/^ReservationName=\(gurt\.[0-9.]*\) .* Users=\([^ ]*\) .*/\1 \2/p' \
        | while read -r b_test b_whose; do
            b_made=${b_test#gurt.}; b_made=${b_made%%.*}
            [ "$b_whose" != "$b_user" ] || [ $((b_made + 120)) -gt "$(date +%s)" ] || b_drop "$b_test"
        done
}

# A reservation is not deleted while a job waits or runs in it.
b_drop() {
    for b_turn in 1 2 3 4 5 6 7 8; do
        b_said=$(scontrol delete reservationname="$1" 2>&1) && return
        case $b_said in
        *'is invalid'* | *'not found'*) return ;;
        *'in use'*) squeue -h -R "$1" -o %i | while read -r b_id; do scancel "$b_id"; done; sleep 1 ;;
        *) break ;;
        esac
    done
    b_fail "scontrol: $b_said"
}

b_jobs() { squeue -h -u "$b_user" -t all -o '%j|%T|%r'; }
b_find() { squeue -h -u "$b_user" -n "$1" -o %i | head -n 1; }

# b_submit NAME RESERVATION NODES SECONDS WRAPPER HOME AREA: prints the id, or why not and fails.
b_submit() {
    b_name=$1 b_wanted=$2
    set -- --parsable -N "$3" -t "$((($4 + 59) / 60))" -J "$b_name" -D "$7" -o /dev/null --no-requeue "$5" "$6" "$7"
    [ -z "$b_queue" ] || set -- -p "$b_queue" "$@"
    [ -z "$b_account" ] || set -- -A "$b_account" "$@"
    [ -z "$b_wanted" ] || set -- --reservation="$b_wanted" "$@"
    b_said=$(sbatch "$@" 2>&1) || { b_line "$b_said"; return 1; }
    printf '%s\n' "$b_said" | sed -n '$s/^\([0-9][0-9]*\).*/\1/p'
}
b_kill() {
    b_said=$(scancel "$1" 2>&1) && return
    case $b_said in *'Invalid job id'*) ;; *) b_fail "scancel: $b_said" ;; esac
}
