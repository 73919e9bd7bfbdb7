# Several hosts on one machine: network namespaces with names of their own, joined by a bridge.
# To be sourced. Needs root, iproute2 and Open MPI; everything it makes carries this shell's number.
#
#   hosts_possible || skip "$why"       whether this machine allows it
#   hosts_up N                          n01 … n0N; sets $hosts_agent, $hosts_mpi (arguments of mpirun)
#   hosts_cut n02 / hosts_join n02      takes the link away, gives it back
#   hosts_limit RATE                    such as 100mbit, on every link, in both directions
#   hosts_bytes n02                     that the host has sent
#   hosts_down                          also when the shell ends

hosts_id=$(($$ % 250))
hosts_net=10.77.$hosts_id
hosts_count=0

hosts_possible() {
  why=
  [ "$(id -u)" = 0 ] || { why="network namespaces need root"; return 1; }
  for tool in ip unshare mpirun; do
    command -v $tool >/dev/null || { why="$tool is not installed"; return 1; }
  done
  ip netns add "tp$hosts_id" 2>/dev/null || { why="network namespaces are not allowed here"; return 1; }
  ip netns del "tp$hosts_id"
  if ! ip link add "tp$hosts_id" type veth peer name "tq$hosts_id" 2>/dev/null; then
    why="veth links are not allowed here"
    return 1
  fi
  ip link del "tp$hosts_id"
}

host_space() { echo "t$hosts_id-$1"; }  # n02 → t17-n02
host_link() { echo "t$hosts_id${1#n0}"; }

hosts_up() {
  hosts_folder=$(mktemp -d /tmp/tessera_hosts.XXXXXX)
  trap 'hosts_down' EXIT
  trap 'exit 1' INT TERM
  ip link add "tb$hosts_id" type bridge
  ip addr add "$hosts_net.1/24" dev "tb$hosts_id"
  ip link set "tb$hosts_id" mtu 9000 up
  hosts_count=$1
  local i name space link
  for ((i = 1; i <= $1; i++)); do
    name=n0$i space=$(host_space "n0$i") link=$(host_link "n0$i")
    ip netns add "$space"
    ip link add "$link" type veth peer name eth0 netns "$space"
    ip link set "$link" master "tb$hosts_id" up
    ip -n "$space" addr add "$hosts_net.$((10 + i))/24" dev eth0
    # Frames of 9,000 bytes, as clusters have: with 1,500 the kernel's work for each packet takes a
    # third of these cores.
    ip link set "$link" mtu 9000
    ip -n "$space" link set eth0 mtu 9000 up
    ip -n "$space" link set lo up
  done
  # What mpirun calls in place of ssh: HOST COMMAND…
  cat >"$hosts_folder/agent" <<AGENT
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
name=\$1
shift
exec ip netns exec "t$hosts_id-\$name" unshare --uts bash -c 'hostname "\$0"; exec bash -c "\$*"' "\$name" "\$@"
AGENT
  chmod +x "$hosts_folder/agent"
  hosts_agent=$hosts_folder/agent
  hosts_mpi="--mca plm_rsh_agent $hosts_agent --mca btl tcp,self --mca btl_tcp_if_include $hosts_net.0/24"
  hosts_mpi+=" --mca oob_tcp_if_include $hosts_net.0/24 --mca orte_keep_fqdn_hostnames 1"
}

hosts_cut() { ip link set "$(host_link "$1")" down; }
hosts_join() { ip link set "$(host_link "$1")" up; }

hosts_limit() {
  local i
  for ((i = 1; i <= hosts_count; i++)); do
    tc qdisc replace dev "$(host_link "n0$i")" root tbf rate "$1" burst 64kb latency 50ms
    tc -n "$(host_space "n0$i")" qdisc replace dev eth0 root tbf rate "$1" burst 64kb latency 50ms
  done
}

hosts_bytes() { ip netns exec "$(host_space "$1")" cat /sys/class/net/eth0/statistics/tx_bytes; }

# The processes of a host whose command line holds a word.
host_processes() {
  local pid
  for pid in $(ip netns pids "$(host_space "$1")" 2>/dev/null); do
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -- "$2" && echo "$pid"
  done
}

hosts_down() {
  local i pid
  for ((i = 1; i <= hosts_count; i++)); do
    for pid in $(ip netns pids "$(host_space "n0$i")" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
    ip link del "$(host_link "n0$i")" 2>/dev/null
    ip netns del "$(host_space "n0$i")" 2>/dev/null
  done
  [ "$hosts_count" = 0 ] || ip link del "tb$hosts_id" 2>/dev/null
  hosts_count=0
  rm -rf "$hosts_folder"
}
