//! The machine that packages are for, which is the one that builds, in the words of each format.

pub(super) struct Machine {
    /// Rust's.
    pub(super) name: &'static str,
    /// Debian's; nfpm translates it for RPM.
    pub(super) debian: &'static str,
    /// Below /usr.
    pub(super) debian_libraries: &'static str,
    /// The target of the static program.
    pub(super) musl: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine {
        name: "x86_64",
        debian: "amd64",
        debian_libraries: "lib/x86_64-linux-gnu",
        musl: "x86_64-unknown-linux-musl",
    },
    Machine {
        name: "aarch64",
        debian: "arm64",
        debian_libraries: "lib/aarch64-linux-gnu",
        musl: "aarch64-unknown-linux-musl",
    },
];

pub(super) fn this() -> Result<&'static Machine, String> {
    let name = std::env::consts::ARCH;
    let known = MACHINES.iter().find(|machine| machine.name == name);
    known.ok_or_else(|| format!("packages are made on x86_64 and aarch64, not on {name}"))
}
