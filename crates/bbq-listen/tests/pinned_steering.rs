//! If this fails, a server without privilege does not steer by the programs that were pinned for it, two groups steer by the same one,
//! or a server that may not use them does not start.
//!
//! It needs root, and does nothing without: to mount a file system of type bpf, and to load programs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use bbq_listen::{GroupOptions, Steering, SteeringSetup, UnixOwner};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

/// Users that own nothing here.
const USER: u32 = 65_534;
const OTHER_USER: u32 = 65_533;

/// A directory that everybody may enter, where programs can be pinned. They are removed when it is dropped.
struct Pins(tempfile::TempDir);

impl Pins {
    /// `None` without root.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self(directory))
    }

    fn setup(&self, programs: usize) -> SteeringSetup {
        let owner = UnixOwner { user: Some(USER), group: Some(USER) };
        SteeringSetup::new(self.0.path().join("pins"), programs).owner(owner)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let removed = self.setup(1).remove();
        assert!(removed.is_ok() || thread::panicking(), "{removed:?}");
    }
}

/// Runs `f` on a thread that is another user's, and has no capability.
fn as_user<T: Send>(user: u32, f: impl FnOnce() -> T + Send) -> T {
    let without = || {
        let user = Uid::from_raw(user);
        set_thread_res_uid(user, user, user).unwrap();
        f()
    };
    thread::scope(|threads| threads.spawn(without).join().unwrap())
}

fn options(pins: &Path) -> GroupOptions {
    GroupOptions::new("tcp://127.0.0.1:0".parse().unwrap(), 3).steering(Steering::Load).steering_pins(pins)
}

#[test]
fn a_server_without_privilege_steers_by_a_pinned_program() {
    let Some(place) = Pins::new() else { return };
    let setup = place.setup(2);
    setup.install().unwrap();
    as_user(USER, || {
        let group = options(&setup.pins).open().unwrap();
        assert_eq!(group.steering().as_deref(), Some("load by a pinned program"));
        let address = group.local_address().socket_address().unwrap();
        let clients: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        let queues: Vec<u64> = group.sockets().iter().map(|socket| socket.queue().unwrap().queue).collect();
        // Ten standard deviations around a third: the shares are even.
        assert!(queues.iter().all(|queue| (18..=182).contains(queue)), "{queues:?}");
        assert_eq!(queues.iter().sum::<u64>(), 300);
        drop(clients);

        // Grown and shrunk, it is the same program.
        group.resize(5).unwrap();
        assert_eq!(group.steering().as_deref(), Some("load by a pinned program"));
        assert_eq!(group.load_shares().unwrap().len(), 5);
        group.set_steering(&Steering::Hash).unwrap();
        assert_eq!(group.steering().as_deref(), Some("hash"));
        group.set_steering(&Steering::Load).unwrap();
        assert_eq!(group.steering().as_deref(), Some("load by a pinned program"));
    });
}

#[test]
fn each_group_has_a_program_for_itself_and_one_without_says_why() {
    let Some(place) = Pins::new() else { return };
    let setup = place.setup(2);
    setup.install().unwrap();
    let open = || options(&setup.pins).open().unwrap();
    let groups = [open(), open()];
    let says: BTreeSet<_> = groups.iter().map(|group| group.steering().unwrap()).collect();
    assert_eq!(says, BTreeSet::from(["load by a pinned program".to_owned()]));
    let third = open().steering().unwrap();
    assert!(third.starts_with("load; all 2 programs in ") && third.contains("--programs"), "{third}");
    let [first, _second] = groups;
    drop(first);
    assert_eq!(
        open().steering().unwrap(),
        "load by a pinned program",
        "what a group leaves another one takes"
    );
    // More of them, while some are in use.
    place.setup(3).install().unwrap();
    let more = [open(), open()];
    assert!(more.iter().all(|group| group.steering().unwrap() == "load by a pinned program"));
}

#[test]
fn who_may_not_use_them_and_where_there_are_none_steers_as_before() {
    let Some(place) = Pins::new() else { return };
    let setup = place.setup(1);
    let steering = || options(&setup.pins).open().unwrap().steering().unwrap();
    assert_eq!(steering(), "load");
    setup.install().unwrap();
    let refused = as_user(OTHER_USER, steering);
    assert!(refused.starts_with("load; ") && refused.contains("Permission denied"), "{refused}");
    setup.remove().unwrap();
    assert!(!setup.pins.exists());
    assert_eq!(steering(), "load");
    setup.remove().unwrap();
}

#[test]
fn what_cannot_be_pinned_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let none = SteeringSetup::new(directory.path().join("pins"), 0).install().unwrap_err();
    assert!(none.to_string().contains("1 to 256"), "{none}");
    let nowhere = SteeringSetup::new(directory.path().join("no/pins"), 1).install().unwrap_err();
    assert!(nowhere.to_string().starts_with("cannot create "), "{nowhere}");
    let Some(place) = Pins::new() else { return };
    fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let setup = place.setup(1);
    let unprivileged = as_user(USER, || setup.install().unwrap_err());
    assert!(unprivileged.to_string().contains("run it as root"), "{unprivileged}");
}
