#!/bin/bash
# Stands before a rank and makes one of them, or those of one host, different from the others.
# usage: wrong_rank.sh CASE FOLDER TESSERA train RUN [key=value …]
case=$1 folder=$2
shift 2
rank=${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}
case $case:$rank in
  dead-at-start:3) kill -9 $$ ;;
  memory:3) ulimit -v 400000 ;;
  config:3) set -- "$@" optimizer.learning_rate=2.0e-3 ;;
esac
case $case:$(hostname) in
  version:n02) shift; set -- "$folder/other_tessera" "$@" ;;
  clock:n02) export LD_PRELOAD=$folder/clock.so ;;
  full-disk:n02)
    if [ "$rank" = 3 ]; then
      # This rank alone sees a small, full disk where the checkpoints go.
      exec unshare --mount bash -c 'mkdir -p "$0" && mount -t tmpfs -o size=64k none "$0" && exec "$@"' \
        "$folder/run/checkpoints" "$@"
    fi ;;
esac
exec "$@"
