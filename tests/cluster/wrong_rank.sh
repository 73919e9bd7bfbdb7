#!/bin/bash
# Stands before a rank and makes one of them, or those of one host, different from the others.
# usage: wrong_rank.sh CASE FOLDER TESSERA train RUN [key=value …]
case=$1 folder=$2
shift 2
rank=${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}
case $case:$rank in
  dead-at-start:3) kill -9 $$ ;;
  memory:3) ulimit -v 121000 ;;  # more than MPI's start takes, less than the run says it needs
  config:3) set -- "$@" optimizer.learning_rate=2.0e-3 ;;
esac
case $case:$(hostname) in
  version:n02) shift; set -- "$folder/other_tessera" "$@" ;;
  clock:n02) export LD_PRELOAD=$folder/clock.so ;;
  full-disk:n02) [ "$rank" = 3 ] && export LD_PRELOAD=$folder/full_disk.so ;;
esac
exec "$@"
