# A Grid Engine in its users' own commands (observed with 8.1.9, "Son of Grid Engine").
# b_pe: the parallel environment of which a node is one slot; b_queue: a queue, or empty.

b_programs='qrsub qrdel qrstat qsub qstat qdel'
# b_with COMMAND ARGUMENT...: where, and who pays.
b_with() {
    b_command=$1; shift
    [ -z "$b_queue" ] || set -- -q "$b_queue" "$@"
    [ -z "$b_account" ] || set -- -A "$b_account" "$@"
    "$b_command" "$@"
}

# Ids of our reservations, or of the one that is called $1, one a line.
b_ids() {
    b_all=$(qrstat -xml 2>&1) || b_fail "qrstat: $b_all"
    printf '%s\n' "$b_all" | awk -F '[<>]' -v wanted="$1" '
        $2 == "id" { id = $3 }
        $2 == "name" && (wanted == "" ? index($3, "gur.") == 1 : $3 == wanted) { print id }'
}

# Our reservations, with the slots of each.
b_list() {
    b_found=$(b_ids "") || exit 1
    [ -z "$b_found" ] || qrstat -ar "$(printf '%s\n' "$b_found" | paste -s -d , -)" -xml
}

# When what we may see ends, and how many slots there are.
b_ends() { qrstat -u '*' -xml; }
b_size() { qstat -g c -xml; }

# b_room START END LENGTH MIN MAX: a dry run, which leaves nothing behind.
b_room() {
    b_said=$(b_with qrsub -w v -a "$1" -d "$3" -pe "$b_pe" "$4-$5" -u "$b_user" 2>&1)
    b_slots=$(printf '%s\n' "$b_said" | sed -n 's/.*possible assignment with \([0-9][0-9]*\) slot.*/\1/p')
    if [ -n "$b_slots" ]; then echo "room $b_slots"; else printf 'no %s\n' "$(b_line "$b_said")"; fi
}

# Without -u anybody who knows the number could run in it.
b_set() {
    if b_said=$(b_with qrsub -a "$2" -d "$4" -pe "$b_pe" "$5-$6" -u "$b_user" -N "$1" 2>&1); then echo set
    else printf 'no %s\n' "$(b_line "$b_said")"; fi
}

# Its jobs go with it.
b_drop() {
    b_said=$(qrdel "$1" 2>&1) && return
    case $b_said in *'does not exist'*) ;; *) b_fail "qrdel: $b_said" ;; esac
}
b_sweep() { :; }

b_jobs() { qstat -u "$b_user" -xml; }
b_find() { b_all=$(b_jobs 2>&1) || b_fail "qstat: $b_all"
    printf '%s\n' "$b_all" | awk -F '[<>]' -v wanted="$1" '
        $2 == "JB_job_number" { id = $3 } $2 == "JB_name" && $3 == wanted { print id; exit }'; }

# b_submit NAME RESERVATION NODES SECONDS WRAPPER HOME AREA: prints the id, or why not and fails.
b_submit() {
    b_name=$1 b_wanted=$2
    set -- -terse -pe "$b_pe" "$3" -l "h_rt=$4" -N "$b_name" -wd "$7" -r n -S /bin/sh -o /dev/null -j y "$5" "$6" "$7"
    if [ -n "$b_wanted" ]; then
        b_ar=$(b_ids "$b_wanted") || exit 1
        [ -n "$b_ar" ] || { echo "the batch system no longer has its reservation"; return 1; }
        b_queue='' # the reservation knows where
        set -- -ar "$b_ar" "$@"
    fi
    b_said=$(b_with qsub "$@" 2>&1) || { b_line "$b_said"; return 1; }
    printf '%s\n' "$b_said" | sed -n '$s/^\([0-9][0-9]*\).*/\1/p'
}
b_kill() {
    b_said=$(qdel "$1" 2>&1) && return
    case $b_said in *'does not exist'*) ;; *) b_fail "qdel: $b_said" ;; esac
}
