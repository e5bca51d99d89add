# Read by a POSIX shell at the far end, before the functions of one batch system (gridengine.sh, slurm.sh). Everything
# that a user wrote arrives in a positional parameter or a quoted variable, never in the text of a command.

# A part of the answer begins.
b_part() { printf '\ngrid-part %s\n' "$1"; }

# What a command said, as one line.
b_line() { printf '%s' "$1" | tr '\n\t' '  ' | cut -c 1-400; }

# Leave with a message for people.
b_fail() { b_line "$1" >&2; exit 1; }

# SHA-256 of each file that is named, one line each.
b_sums() {
    if command -v sha256sum > /dev/null 2>&1; then printf '%s\0' "$@" | xargs -0 sha256sum
    else printf '%s\0' "$@" | xargs -0 shasum -a 256; fi
}

# Our reservation NAME as the book has it: the request, what was granted, its job, and the marks.
b_entry() {
    [ -s "book/$1/request" ] || return 0
    b_marks= b_bound=
    [ ! -s "book/$1/job" ] || b_bound=$(cat "book/$1/job")
    for b_mark in committed released; do [ ! -e "book/$1/$b_mark" ] || b_marks="$b_marks $b_mark"; done
    [ -z "$b_bound" ] || [ ! -e "jobs/$b_bound/idle" ] || b_marks="$b_marks idle"
    printf 'entry %s %s\n' "$1" "$b_marks"
    printf 'granted %s\n' "$(cat "book/$1/granted" 2> /dev/null)"
    printf 'job %s\n' "$b_bound"
    printf 'request %s\n' "$(cat "book/$1/request")"
}

# Try START END pairs in order until one can be had: b_reserve NAME REQUEST UNTIL LENGTH MIN MAX STAMP STAMP EPOCH ...
# Whoever releases the name leaves the mark first and looks for the reservation then; here it is the other way round. So
# whatever comes first, no reservation stays that was released, also when nobody hears the answer any more.
b_reserve() {
    b_name=$1 b_request=$2 b_until=$3 b_length=$4 b_least=$5 b_most=$6; shift 6
    b_home=book/$b_name
    mkdir -p "$b_home" || b_fail "cannot write $b_home"
    if [ -e "$b_home/released" ]; then echo finished; return; fi
    [ -z "$(find "$b_home" -name asking -mmin +5)" ] || rmdir "$b_home/asking"
    if ! mkdir "$b_home/asking" 2> /dev/null; then echo busy; return; fi
    trap 'rmdir "$b_home/asking"' EXIT
    printf '%s\n' "$b_request" > "$b_home/request.new" && mv "$b_home/request.new" "$b_home/request" \
        || b_fail "cannot write $b_home: is the disk full?"
    [ -z "$b_until" ] || printf '%s\n' "$b_until" > "$b_home/until"
    while [ $# -gt 2 ]; do
        b_answer=$(b_set "$b_name" "$1" "$2" "$b_length" "$b_least" "$b_most")
        case $b_answer in
        set*)
            printf '%s\n' "$3" > "$b_home/granted"
            if [ -e "$b_home/released" ]; then b_drop "$b_name"; echo finished; return; fi
            printf 'set %s\n' "$3"
            return ;;
        *) printf '%s %s\n' "$3" "$b_answer" ;;
        esac
        shift 3
    done
    rm -f "$b_home/until"
}

# b_commit NAME START COMPANIONS SPEC: from here on the job of the reservation may begin. What it is told of its companions is
# the content of the mark, so that it comes with it; the mark appears whole. When the reservation has begun it is too late
# for a job: its wrapper may have looked already.
b_commit() {
    b_home=book/$1
    [ -s "$b_home/request" ] || return 0
    if [ -e "$b_home/committed" ] || [ -e "$b_home/released" ]; then return; fi
    if [ -s "$b_home/job" ]; then
        if [ "$2" -le "$(date +%s)" ]; then echo late; return; fi
        b_keep "jobs/$(cat "$b_home/job")/spec" "$4"
    fi
    b_keep "$b_home/committed" "$3"
    rm -f "$b_home/until"
}

# b_keep FILE TEXT: write it whole or not at all.
b_keep() {
    printf '%s' "$2" > "$1.new" && mv "$1.new" "$1" || b_fail "cannot write $1: is the disk full?"
}

# b_release NAME: see b_reserve.
b_release() {
    mkdir -p "book/$1" && : > "book/$1/released" || b_fail "cannot write book/$1: is the disk full?"
    b_drop "$1" || return
    rm -f "book/$1/until"
}

# Let go what was held until before now, and test reservations whose shell was killed.
b_expire() {
    for b_each in book/gur.*/until; do
        [ -s "$b_each" ] || continue
        [ "$(cat "$b_each")" -ge "$(date +%s)" ] || { b_home=${b_each%/until}; b_release "${b_home#book/}"; }
    done
    b_sweep
}

# Submit once, whatever happens: b_once NAME RESERVATION NODES SECONDS END AREA SPEC PROGRAM WRAPPER INPUTS
b_once() {
    b_name=$1 b_inside=$2 b_nodes=$3 b_limit=$4 b_until=$5 b_area=$6
    b_home=jobs/$b_name
    mkdir -p "$b_home" "areas/$b_area" || b_fail "cannot write $b_home"
    if [ -s "$b_home/id" ]; then return; fi
    # A reservation that has begun has less time left than it is long.
    b_left=$((b_until - $(date +%s) - 1))
    if [ "$b_until" -gt 0 ] && [ "$b_left" -lt "$b_limit" ]; then b_limit=$b_left; fi
    if [ "$b_limit" -lt 1 ]; then echo "refused the reservation is over"; return; fi
    [ -z "$(find "$b_home" -name asking -mmin +5)" ] || rmdir "$b_home/asking"
    if ! mkdir "$b_home/asking" 2> /dev/null; then echo busy; return; fi
    trap 'rmdir "$b_home/asking"' EXIT
    printf '%s\n' "$7" > "$b_home/spec" && printf '%s' "$8" > "$b_home/program" && printf '%s' "$9" > "$b_home/wrapper" \
        && printf '%s' "${10}" > "$b_home/inputs" && printf '%s\n' "$b_inside" > "$b_home/inside" \
        && chmod 700 "$b_home/program" "$b_home/wrapper" || b_fail "cannot write $b_home: is the disk full?"
    # A shell that was killed in between has submitted it, or not: the batch system knows.
    b_id=$(b_find "$b_name") || exit 1
    if [ -z "$b_id" ]; then
        b_id=$(b_submit "$b_name" "$b_inside" "$b_nodes" "$b_limit" "$PWD/$b_home/wrapper" "$PWD/$b_home" \
            "$PWD/areas/$b_area") || { printf 'refused %s\n' "$b_id"; return; }
    fi
    printf '%s\n' "$b_id" > "$b_home/id.new" && mv "$b_home/id.new" "$b_home/id"
}

# A job as its own files tell of it, and whether its reservation was released.
b_job() {
    [ -s "jobs/$1/spec" ] || return 0
    printf 'job %s\n' "$1"
    for b_mark in id started hosts ended cancelled idle; do
        [ ! -s "jobs/$1/$b_mark" ] || printf '%s %s\n' "$b_mark" "$(cat "jobs/$1/$b_mark")"
    done
    b_inside=$(cat "jobs/$1/inside" 2> /dev/null)
    [ -z "$b_inside" ] || [ ! -e "book/$b_inside/released" ] || printf 'released yes\n'
    printf 'spec %s\n' "$(cat "jobs/$1/spec")"
}
