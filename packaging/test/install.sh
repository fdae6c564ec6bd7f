#!/bin/bash
# Installs the Debian package of bbq, upgrades over it while clients send, removes and purges it, with dpkg and systemd as they are on this
# machine, in a view of the machine whose changes are thrown away: an overlay over /, with processes, network and control groups of its own.
# Then the RPM package is installed, upgraded and erased by rpm in the same view. `cargo xtask dist --test` runs this, as root.
#
# install.sh DIRECTORY NEWER-DIRECTORY VERSION NEWER-VERSION
set -euo pipefail

packages=$(realpath "$1")
newer=$(realpath "$2")
version=$3
newer_version=$4
work=$(mktemp -d)
here=$(realpath "$(dirname "$0")")
group=
booted=
failed=

say() { echo "install: $*"; }
fail() {
    say "FAILED: $*" >&2
    failed=yes
    exit 1
}

finish() {
    local status=$?
    if [ -n "$booted" ]; then
        kill -KILL "$booted" 2> /dev/null || true
        wait "$booted" 2> /dev/null || true
    fi
    if [ -n "$group" ]; then
        # A group can be removed once the kernel has let go of its last process.
        for _ in $(seq 100); do
            find "$group" -depth -type d -exec rmdir {} + 2> /dev/null && break
            sleep 0.1
        done
    fi
    rm -rf "$work"
    [ "$status" = 0 ] || [ -n "$failed" ] || say "FAILED: a command of this step returns $status" >&2
}
trap finish EXIT

for package in "$packages/bbq_$version-1_"*.deb "$newer/bbq_$newer_version-1_"*.deb \
    "$packages/bbq-$version-1".*.rpm "$newer/bbq-$newer_version-1".*.rpm; do
    [ -f "$package" ] || fail "there is no $package; run cargo xtask dist first"
done
# Control groups of the second version, wherever they are mounted.
hierarchy=$(findmnt --noheadings --output TARGET --types cgroup2 | head -n 1)
[ -n "$hierarchy" ] || fail "no file system of type cgroup2 is mounted, which systemd needs"
mkdir "$hierarchy/bbq-install-$$" || fail "a group cannot be made in $hierarchy, which systemd needs: is it mounted read-only?"
group=$hierarchy/bbq-install-$$

unshare --mount --pid --fork --kill-child --uts --ipc --net \
    sh -c 'echo 0 > "$1/cgroup.procs" && shift && exec unshare --cgroup bash "$@"' sh "$group" "$here/boot.sh" "$work" \
    > "$work/console" 2>&1 &
booted=$!

# The first process of the view is the child of `unshare`.
init=
for _ in $(seq 300); do
    init=$(pgrep --parent "$booted" | head -n 1) || true
    [ -n "$init" ] && [ "$(cat "/proc/$init/comm" 2> /dev/null)" = systemd ] && break
    kill -0 "$booted" 2> /dev/null || break
    sleep 0.1
done
if [ -z "$init" ] || [ "$(cat "/proc/$init/comm" 2> /dev/null)" != systemd ]; then
    cat "$work/console" >&2
    fail "systemd does not start in the view (what it printed is above): this needs root, new namespaces of mounts, processes, networks" \
        "and control groups, and overlay file systems; a container must be a privileged one"
fi
inside() { nsenter --target "$init" --all --root env -i --chdir=/ PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }

# Waits until a command succeeds.
until_is() {
    local what=$1
    shift
    for _ in $(seq 300); do
        if "$@" > "$work/last" 2>&1; then return; fi
        sleep 0.1
    done
    cat "$work/last" >&2
    inside systemctl --no-pager status bbq.service >&2 || true
    inside journalctl --no-pager --unit bbq.service >&2 || true
    fail "$what"
}
# Sends numbered messages, and waits until the server has them.
send() { inside timeout 60 sh -c 'seq -f "$0 %.0f" "$1" | bbq send --quiet' "$1" "$2" || fail "the server does not take messages ($1)"; }
is_active() { [ "$(inside systemctl is-active "$1")" = active ]; }
main_pid() { inside systemctl show --property MainPID --value bbq.service; }
delivered_are() { [ "$(inside sh -c 'cat /var/log/bbq/messages.log* | sort -u | wc -l')" = "$1" ]; }
# What the view has and the machine has not. Looked for among the changes of the overlay, as the machine's own files change meanwhile.
additions() {
    nsenter --target "$init" --mount env -i --chdir="$work/changes" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        find . -not -type c -printf '%P\n' | while read -r name; do
        [ -e "/$name" ] || [ -L "/$name" ] || echo "/$name"
    done | grep --invert-match --extended-regexp '^/(var/(log/journal|lib/dpkg|lib/rpm|cache)|root|run|tmp)(/|$)' | sort
}

until_is "systemd does not get ready" is_active basic.target
inside ip link set lo up
inside mkdir -p /tmp/bbq
for file in "$packages"/bbq_*.deb "$newer"/bbq_*.deb; do inside sh -c 'cat > "/tmp/bbq/$0"' "$(basename "$file")" < "$file"; done
additions > "$work/before"

say "the package of $version is installed"
inside dpkg --install "/tmp/bbq/$(basename "$packages"/bbq_*.deb)" > "$work/last" 2>&1 || { cat "$work/last" >&2; fail "dpkg --install"; }
until_is "the service does not start" is_active bbq.service
inside bbq status --wait 10 > /dev/null
inside getent passwd bbq > /dev/null || fail "there is no user bbq"
first=$(main_pid)
[ "$(inside stat --format %U "/proc/$first")" = bbq ] || fail "the server does not run as user bbq"
[ "$(inside stat --format '%U %a' /var/lib/bbq)" = "bbq 700" ] || fail "/var/lib/bbq is not the user's alone"
inside systemctl is-enabled bbq.service > /dev/null || fail "the service does not start with the system"

say "messages come in by each listener"
send first 1000
inside bash -c 'echo "a line" > /dev/tcp/127.0.0.1/7701; exec 3<> /dev/tcp/127.0.0.1/5514; echo "<13>syslog" >&3'
inside curl --silent --fail --data-binary 'by http' http://127.0.0.1:7780/ > /dev/null
until_is "not everything is delivered" delivered_are 1003
inside systemctl reload bbq.service

say "the package of $newer_version is installed over it, while a client sends and a connection is open"
mkfifo "$work/held"
inside bash -c 'exec 3<> /dev/tcp/127.0.0.1/7701; echo -n "half a " >&3; read -r _; echo "line over the upgrade" >&3' < "$work/held" &
held=$!
exec 8> "$work/held"
send second 200000 &
sending=$!
inside sh -c 'echo "# changed by the administrator" >> /etc/bbq/bbq.toml'
inside dpkg --install "/tmp/bbq/$(basename "$newer"/bbq_*.deb)" > "$work/last" 2>&1 || { cat "$work/last" >&2; fail "dpkg --install over it"; }
has_new_process() { [ "$(main_pid)" != "$first" ] && is_active bbq.service; }
until_is "the newer program does not take over" has_new_process
echo >&8
exec 8>&-
wait "$held"
wait "$sending" || fail "the client lost its server"
until_is "messages are lost in the upgrade" delivered_are 201004
inside grep --quiet 'half a line over the upgrade' /var/log/bbq/messages.log || fail "the open connection was cut"
inside grep --quiet 'changed by the administrator' /etc/bbq/bbq.toml || fail "the configuration was replaced"
[ "$(inside dpkg-query --show --showformat '${Version}' bbq)" = "$newer_version-1" ] || fail "another version is installed"

say "the same is started by its sockets"
inside systemctl stop bbq.service
inside systemctl start bbq.socket
is_active bbq.service && fail "the service runs before anybody has connected"
send third 10
until_is "the sockets do not start the service" delivered_are 201014
inside bbq status --json | grep --quiet '"shared"' || fail "the listeners are not those of systemd"

say "it is removed, and everything stays but the program"
inside dpkg --remove bbq > "$work/last" 2>&1 || { cat "$work/last" >&2; fail "dpkg --remove"; }
is_active bbq.service && fail "the service runs after its removal"
is_active bbq.socket && fail "systemd listens after the removal"
inside test -e /usr/bin/bbq && fail "the program is still there"
delivered_are 201014 || fail "a removal deletes messages"
inside test -s /etc/bbq/bbq.toml || fail "a removal deletes the configuration"

say "it is purged, and nothing is left but its user"
inside dpkg --purge bbq > "$work/last" 2>&1 || { cat "$work/last" >&2; fail "dpkg --purge"; }
additions > "$work/after"
left=$(comm -13 "$work/before" "$work/after" | grep --invert-match --extended-regexp '^/etc/(passwd|group|shadow|gshadow)-$|^/etc/\.pwd\.lock$' || true)
[ -z "$left" ] || fail "a purge leaves $left"

say "the package for Fedora is installed, upgraded and erased by rpm"
for directory in "$packages" "$newer"; do
    for file in "$directory"/bbq-[0-9]*.rpm; do inside sh -c 'cat > "/tmp/bbq/$0"' "$(basename "$file")" < "$file"; done
done
# The database of rpm is empty here, so it knows nothing that the package depends on.
by_rpm() { inside rpm "$@" > "$work/last" 2>&1 || { cat "$work/last" >&2; fail "rpm $1"; }; }
by_rpm --install --nodeps "/tmp/bbq/$(basename "$packages/bbq-$version-1".*.rpm)"
inside systemctl start bbq.service
inside bbq status --wait 10 > /dev/null
first=$(main_pid)
send fourth 10
by_rpm --upgrade --nodeps "/tmp/bbq/$(basename "$newer/bbq-$newer_version-1".*.rpm)"
until_is "the newer program of the RPM package does not take over" has_new_process
send fifth 10
until_is "messages are lost in the upgrade by rpm" delivered_are 20
by_rpm --erase bbq
is_active bbq.service && fail "the service runs after its removal"
for left in /usr/bin/bbq /etc/bbq /usr/share/doc/bbq; do
    inside test -e "$left" && fail "rpm leaves $left"
done
delivered_are 20 || fail "rpm deletes messages"

say "done"
