#!/bin/bash
# Becomes the first process of a view of this machine: systemd, with none of the machine's services. install.sh runs this in new namespaces.
set -euo pipefail

work=$1
mount --make-rprivate /
mount -t tmpfs tmpfs "$work"
mkdir "$work/changes" "$work/overlay" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/changes,workdir=$work/overlay" "$work/root"
root=$work/root
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mountpoint --quiet "$root/sys/fs/cgroup" || mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --rbind /dev "$root/dev"
# Nothing of this machine starts: only the journal, and what the test starts.
# A policy of containers keeps packages from starting services; in the view they do.
rm -f "$root/usr/sbin/policy-rc.d"
# The index of all manuals takes seconds at each change of a package.
rm -f "$root/var/lib/man-db/auto-update"
rm -rf "$root"/etc/systemd/system/*.wants "$root"/var/log/journal "$root"/etc/machine-id
touch "$root/etc/machine-id"
for unit in systemd-udevd systemd-udev-trigger systemd-timesyncd systemd-networkd systemd-resolved systemd-logind \
    systemd-modules-load systemd-sysctl systemd-remount-fs getty@tty1 console-getty; do
    ln --symbolic --force /dev/null "$root/etc/systemd/system/$unit.service"
done
exec chroot "$root" env -i container=bbq PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no
