#!/usr/bin/env bash
# A real SLURM of one node on loopback, without systemd: two partitions, two generic GPUs.
#
#   start.sh install      the Debian packages (root); their services are not started
#   start.sh start DIR    configure and start all daemons below DIR; returns once a job has run
#   start.sh env DIR      print the variables that a client needs: export $(start.sh env DIR)
#   start.sh stop DIR     cancel all jobs, stop what `start` had started
#
# SLURM_TEST_PORT (26817) and the port above it are the daemons'. The node claims more cores and
# memory than there are: no limit is enforced, so that jobs of a real cluster's size are scheduled.
set -uo pipefail
umask 022

die() { echo "slurm test node: $*" >&2; exit 1; }

COMMAND=${1:-}
case $COMMAND in
    install) ;;
    start | env | stop) [ -n "${2:-}" ] || die "'$COMMAND' needs a folder" ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac

DIR=$(realpath -m "${2:-.}")
PORT=${SLURM_TEST_PORT:-26817}
WAIT_S=30
DAEMONS=(slurmd slurmctld munged) # in the order of stopping
PATH=$PATH:/usr/sbin:/sbin
unset "${!SLURM_@}" "${!SRUN_@}" "${!SBATCH_@}" "${!SQUEUE_@}"
export SLURM_CONF=$DIR/etc/slurm.conf

# ---- processes: a number may be given again, so the kernel's start time is kept beside it -----

born() { # the start time of a process that is no zombie
    local stat
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    read -ra stat <<<"${stat##*) }" # behind the name, which may hold blanks
    [[ ${stat[0]} != [ZX] ]] && echo "${stat[19]}"
}

running() { # the number of a daemon, if it is still the process that was started
    local pid since
    { read -r pid since <"$DIR/run/$1.started"; } 2>/dev/null || return 1
    [ "$(born "$pid")" = "$since" ] && echo "$pid"
}

launch() { # launch NAME COMMAND...
    local name=$1
    shift
    setsid "$@" </dev/null >>"$DIR/log/$name.out" 2>&1 &
    echo "$! $(born $!)" >"$DIR/run/$name.started"
    disown
}

await() { # await DAEMON WHAT COMMAND...: the command must succeed while the daemon lives
    local daemon=$1 what=$2 end=$((SECONDS + WAIT_S))
    shift 2
    until timeout 10 "$@" >/dev/null 2>&1; do
        if ! running "$daemon" >/dev/null || [ $SECONDS -ge $end ]; then
            tail -n 20 "$DIR/log/$daemon".* >&2
            stop
            die "$daemon: waited in vain for $what"
        fi
        sleep 0.2
    done
}

halt() { # halt DAEMON
    local pid end=$((SECONDS + 15))
    if pid=$(running "$1"); then
        kill -TERM "$pid"
        while running "$1" >/dev/null && [ $SECONDS -lt $end ]; do sleep 0.1; done
        running "$1" >/dev/null && kill -KILL "$pid"
    fi
    rm -f "$DIR/run/$1.started"
}

# ---- configuration ------------------------------------------------------------------------------

configure() {
    local user listen='' real
    user=$(id -un)
    mkdir -p "$DIR"/{bin,etc,log,run,spool/slurmctld,spool/slurmd} || die "cannot write to $DIR"
    (umask 077 && head -c 1024 /dev/urandom >"$DIR/etc/munge.key") || die "cannot write the key"

    # These settings bind to the address of the machine's own name, whatever the addresses below.
    if getent ahostsv4 "$(uname -n)" | grep -q '^127\.'; then
        listen=CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
    fi
    cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=localhost
SlurmUser=$user
SlurmdUser=$user
SlurmctldPort=$PORT
SlurmdPort=$((PORT + 1))
$listen
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$DIR/run/munge.socket
StateSaveLocation=$DIR/spool/slurmctld
SlurmdSpoolDir=$DIR/spool/slurmd
SlurmctldPidFile=$DIR/run/slurmctld.pid
SlurmdPidFile=$DIR/run/slurmd.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd.log
TaskProlog=$DIR/bin/note_task
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
# Snakemake asks squeue for jobs that have ended.
MinJobAge=3600
KillWait=5
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName=localhost NodeAddr=127.0.0.1 CPUs=32 Boards=1 SocketsPerBoard=1 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1000000 Gres=gpu:fake:2
PartitionName=DEFAULT Nodes=localhost MaxTime=INFINITE DefaultTime=10 State=UP
PartitionName=cpu Default=YES
PartitionName=gpu
END
    # CUDA_VISIBLE_DEVICES is set for character devices only; nothing opens them.
    printf '%s\n' AutoDetect=off "NodeName=localhost Name=gpu Type=fake File=/dev/null" \
        "NodeName=localhost Name=gpu Type=fake File=/dev/zero" >"$DIR/etc/gres.conf"

    # What every task was given: job, partition, GPUs.
    cat >"$DIR/bin/note_task" <<END
#!/bin/sh
echo "\$SLURM_JOB_ID \$SLURM_JOB_PARTITION \$CUDA_VISIBLE_DEVICES" >>'$DIR/log/tasks'
END
    # The executor starts srun without SLURM_CONF, and there is no /etc/slurm/slurm.conf.
    real=$(type -P srun)
    printf '%s\n' '#!/bin/sh' "SLURM_CONF='$SLURM_CONF' exec $real \"\$@\"" >"$DIR/bin/srun"
    chmod 755 "$DIR"/bin/*
}

# ---- commands -----------------------------------------------------------------------------------

install() {
    local rule=/usr/sbin/policy-rc.d made='' failed=''
    [ "$(id -u)" -eq 0 ] || die "installing needs root: apt-get install slurm-wlm munge"
    type -P slurmctld slurmd munged srun >/dev/null && return
    # The packages would start services with a configuration that is none.
    if [ ! -e $rule ]; then
        made=yes
        printf '#!/bin/sh\nexit 101\n' >$rule && chmod 755 $rule
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        slurm-wlm munge || failed=yes
    [ -z "$made" ] || rm $rule
    [ -z "$failed" ] || die "apt-get could not install slurm-wlm and munge"
}

start() {
    local name
    for name in munged slurmctld slurmd srun; do
        type -P $name >/dev/null || die "$name is missing: $0 install"
    done
    [ ! -e "$DIR/run" ] || die "$DIR was used before: take a fresh folder"
    configure
    local socket=$DIR/run/munge.socket
    launch munged munged --foreground --force --key-file="$DIR/etc/munge.key" --socket="$socket" \
        --pid-file="$DIR/run/munged.pid" --log-file="$DIR/log/munged.log" \
        --seed-file="$DIR/run/munged.seed"
    await munged 'a credential' bash -c "set -o pipefail; munge -n -S '$socket' | unmunge -S '$socket'"
    launch slurmctld slurmctld -D -f "$SLURM_CONF"
    await slurmctld 'an answer' bash -c 'scontrol ping | grep -q "is UP"'
    launch slurmd slurmd -D -N localhost -f "$SLURM_CONF"
    await slurmd 'an idle node' bash -c '[ "$(sinfo -h -p cpu -o %T)" = idle ]'
    await slurmd 'a finished job' "$DIR/bin/srun" --quiet -p gpu --gpus=1 -t 1 --mem=1 true
    : >"$DIR/log/tasks"
}

stop() {
    local jobs end=$((SECONDS + 20)) name
    if running slurmctld >/dev/null && timeout 10 squeue -h -o %A >"$DIR/run/jobs"; then
        readarray -t jobs < <(sort -u "$DIR/run/jobs")
        [ ${#jobs[@]} -eq 0 ] || timeout 20 scancel "${jobs[@]}"
        while [ -n "$(timeout 10 squeue -h)" ] && [ $SECONDS -lt $end ]; do sleep 0.2; done
    fi
    for name in "${DAEMONS[@]}"; do halt "$name"; done
}

env() {
    printf '%s\n' "SLURM_CONF=$SLURM_CONF" "PATH=$DIR/bin:$PATH"
}

"$COMMAND"
