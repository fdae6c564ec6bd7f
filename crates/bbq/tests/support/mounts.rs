//! Small file systems for a test, in a mount namespace that ends with the test.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set when the test runs for the second time, in its namespace.
pub const VARIABLE: &str = "BBQ_TEST_HAS_OWN_MOUNTS";

/// Runs the calling test, which has this name, again in a new mount namespace, and runs `body` there. Fails if that is not allowed,
/// as the test would otherwise show nothing.
pub fn in_own_mounts(test: &str, body: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some() {
        return body();
    }
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    let allowed = ways.iter().find(|way| {
        let tried = Command::new("unshare").args(**way).arg("true").output();
        tried.is_ok_and(|output| output.status.success())
    });
    let Some(way) = allowed else {
        panic!(
            "this test mounts a small file system in a mount namespace of its own, which `unshare` does not get here; run \
             it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0, user.max_mnt_namespaces)"
        );
    };
    let this = std::env::current_exe().expect("this program");
    let output = Command::new("unshare")
        .args(*way)
        .arg(this)
        .args([test, "--exact", "--nocapture"])
        .env(VARIABLE, "yes")
        .output()
        .expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Creates a directory and mounts a file system in memory there, of a size in KiB.
pub fn mount_small(directory: &Path, kib: u32) {
    fs::create_dir_all(directory).expect("a directory");
    let size = format!("size={kib}k");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(directory).output();
    let mounted = mounted.expect("mount runs");
    assert!(mounted.status.success(), "{mounted:?}");
}

/// A file system of which only the used blocks have a place, as on a thin disk: an ext4 in a file on a file system in memory. When that
/// one is full, a write is taken and its sync fails.
///
/// Each request to the loop device is one page. Of a longer one, the file system in memory may take a part, and Linux 6.18 tells ext4 then
/// that all of it was written (`lo_complete_rq` of drivers/block/loop.c asks for the rest of a short read only).
pub struct ThinDisk {
    backing: PathBuf,
    image: PathBuf,
    directory: PathBuf,
}

impl ThinDisk {
    /// Mounts one at a directory, with room for some MiB; `None` where only a real root may.
    pub fn mount(backing: &Path, directory: &Path) -> Option<ThinDisk> {
        fs::create_dir_all(directory).expect("a directory");
        mount_small(backing, 48 * 1024);
        let image = backing.join("image");
        File::create(&image).expect("a file").set_len(64 << 20).expect("it grows");
        // Without a journal: a failed write of a journal would make the file system read-only.
        let options = ["-q", "-b", "4096", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=0"];
        let made = Command::new("mkfs.ext4").args(options).arg(&image).output().expect("mkfs.ext4 runs");
        assert!(made.status.success(), "{made:?}");
        let disk = ThinDisk { backing: backing.into(), image, directory: directory.into() };
        disk.try_mount().then_some(disk)
    }

    fn try_mount(&self) -> bool {
        let is_root = fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"));
        let mut losetup = Command::new("losetup");
        let attached = losetup.args(["--find", "--show"]).arg(&self.image).output().expect("losetup runs");
        assert!(attached.status.success() || !is_root, "{attached:?}");
        let device = String::from_utf8_lossy(&attached.stdout);
        let Some(name) = device.trim().strip_prefix("/dev/") else { return false };
        let limit = format!("/sys/block/{name}/queue/max_sectors_kb");
        let limited = fs::write(&limit, "4");
        let mut mount = Command::new("mount");
        mount.args(["-o", "errors=continue", device.trim()]).arg(&self.directory);
        let mounted = mount.output().expect("mount runs");
        // A device in use goes when it is unmounted.
        let detached =
            Command::new("losetup").args(["--detach", device.trim()]).output().expect("losetup runs");
        assert!(detached.status.success(), "{detached:?}");
        limited.unwrap_or_else(|error| panic!("{limit}: {error}"));
        assert!(mounted.status.success() || !is_root, "{mounted:?}");
        mounted.status.success()
    }

    /// Lets no more blocks be used.
    pub fn fill(&self) -> Ballast {
        Ballast::fill(&self.backing)
    }

    /// Writes what is in the page cache, as the system does after a while. Errors go to those that sync later.
    pub fn write_back(&self) {
        let _fails = Command::new("sync").arg("--file-system").arg(&self.directory).output();
    }

    /// Mounts it again, so that everything is read from the disk.
    pub fn remount(&self) {
        let unmounted = Command::new("umount").arg(&self.directory).output().expect("umount runs");
        assert!(unmounted.status.success(), "{unmounted:?}");
        assert!(self.try_mount());
    }
}

/// A file that takes all room until it is removed.
pub struct Ballast(PathBuf);

impl Ballast {
    pub fn fill(directory: &Path) -> Ballast {
        let path = directory.join("ballast");
        let mut file = File::create(&path).expect("a file");
        // Large blocks first, so that less than a page is left at the end.
        for block in [64 * 1024, 4096, 1] {
            let bytes = vec![0; block];
            loop {
                match file.write_all(&bytes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{}: {error}", path.display()),
                }
            }
        }
        Ballast(path)
    }

    pub fn remove(self) {
        fs::remove_file(self.0).expect("it is there");
    }
}
