# A node of the emulated network: namespaces of its own for network, host name and mounts, which last
# as long as this script, and the script as long as its standard input.
#
# node.sh INDEX TAP MTU HOSTS NODES
set -eu
index=$1 tap=$2 mtu=$3 hosts=$4 nodes=$5

hostname "node$index"
mount --bind "$hosts" /etc/hosts
ip link set lo up
echo ready

read -r _ # until the TAP device is here
mac() { printf '02:00:00:00:00:%02x' "$1"; }
ip link set "$tap" address "$(mac $((index + 1)))" mtu "$mtu" txqueuelen 10000
ip address add "10.77.0.$((index + 1))/24" dev "$tap"
ip link set "$tap" up
for other in $(seq "$nodes"); do # the switch carries no broadcasts, so nobody can ask
    [ "$other" = $((index + 1)) ] ||
        ip neighbour add "10.77.0.$other" lladdr "$(mac "$other")" dev "$tap" nud permanent
done
# Windows are wide from the first byte on, and stay so: what is measured is the wire, not how TCP
# feels its way.
cd /proc/sys/net/ipv4
echo 1 >tcp_no_metrics_save
echo 0 >tcp_slow_start_after_idle
echo 4096 67108864 134217728 >tcp_rmem
echo 4096 67108864 134217728 >tcp_wmem
ip route replace 10.77.0.0/24 dev "$tap" src "10.77.0.$((index + 1))" initcwnd 2000 initrwnd 2000
echo up
cat
