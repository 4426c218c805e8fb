#!/bin/bash
# SPDX-License-Identifier: MIT
# Limits of control groups, staged with a real group of version 1 or 2. Needs to be root and
# groups that can be written; without them it is skipped (77).
. "$2/tests/cli/helpers.sh"
unset "${!OPENBLAS_@}" "${!OMP_@}" "${!OMPI_@}" "${!UCX_@}" "${!SLURM_@}" "${!PMI_@}"
empty_here
some_text >text.txt

# own CONTROLLER: the folder of this process's group in the hierarchy of version 1.
own() {
    local path
    path=$(awk -F: -v c="$1" '{ n = split($2, of, ","); for (i = 1; i <= n; i++)
        if (of[i] == c) print $3 }' /proc/self/cgroup)
    [[ -n $path ]] && echo "/sys/fs/cgroup/$1${path%/}"
}

memory=$(own memory) cpu=$(own cpu)
groups=()
leave() {
    for group in "${groups[@]}"; do rmdir "$group" 2>/dev/null; done
}
trap leave EXIT
name=weft-doctor-$$
# make FOLDER: a group inside; where the own path is of the host's, the root is taken
make() {
    [[ -d $1 ]] || return 1
    mkdir "$1/$name" 2>why || return 1
    groups+=("$1/$name")
}
enter=()
if [[ -n $memory && -n $cpu ]]; then
    [[ -d $memory ]] || memory=/sys/fs/cgroup/memory
    [[ -d $cpu ]] || cpu=/sys/fs/cgroup/cpu
    { make "$memory" && make "$cpu"; } || skip "no control group can be made: $(cat why)"
    echo 200M >"$memory/$name/memory.limit_in_bytes" || skip "no memory limit can be set"
    echo 50000 >"$cpu/$name/cpu.cfs_quota_us" || skip "no processor limit can be set"
    enter=("$memory/$name/cgroup.procs" "$cpu/$name/cgroup.procs")
else
    make /sys/fs/cgroup || skip "no control group can be made: $(cat why 2>/dev/null)"
    echo 200M >"/sys/fs/cgroup/$name/memory.max" || skip "no memory limit can be set"
    echo "50000 100000" >"/sys/fs/cgroup/$name/cpu.max" || skip "no processor limit can be set"
    enter=("/sys/fs/cgroup/$name/cgroup.procs")
fi

# confined COMMAND...: runs it in the group.
confined() {
    bash -c 'for file in '"${enter[*]}"'; do echo $$ >"$file"; done; exec "$@"' sh "$@"
}
key=("${tiny[@]}" data.path=text.txt run.folder=run)

expect 0 confined "$weft" doctor "${key[@]}"
tr -s ' \n' ' ' <out >line
grep -q "the control group allows 0.5 cores' time, but 1 threads would run" line ||
    fail "the quota is not seen: $(cat out)"
grep -qE "the run needs .*B, (1[0-9][0-9]|20[0-9]) MB is free under the control group's limit" line ||
    fail "the limit is not seen: $(grep memory out)"
expect 1 confined "$weft" doctor "${key[@]}" model.layers=24 model.width=768 model.heads=12
tr -s ' \n' ' ' <out >line
grep -qE "error memory .*the run needs .*GB, but (1..|20.) MB is free under the control group" line ||
    fail "no error: $(grep memory out)"
expect 0 "$weft" doctor "${key[@]}" # outside all is well
! grep -q "control group" out || fail "outside: $(grep 'control group' out)"
finish
