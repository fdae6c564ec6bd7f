//! What a server would meet on this machine now, as far as it shows without opening anything.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bbq_listen::{Address, Holder, ListenError};
use bbq_server::Config;
use bbq_spool::{DirectoryLock, DiskShortage, DiskStorage, SpoolError};
use rustix::fs::{Access, access};

/// systemd holds the sockets of services that it starts for the first connection.
const INIT: u32 = 1;

/// A line for each thing that stands in the way.
pub(crate) fn obstacles(config: &Config) -> Vec<String> {
    let holder = holder_of(&config.data);
    let running = holder.as_deref().and_then(|holder| holder.strip_prefix("pid ")?.parse().ok());
    let mut found = Vec::new();
    // What a reload or an upgrade finds in use is its own.
    let mut is_own = false;
    found.extend(overlaps(config));
    for listener in &config.listen {
        let Some(holder) = Holder::of(&listener.address) else {
            let foreseen = ListenError::foreseen(&listener.address);
            found.extend(foreseen.map(|error| format!("listen   {}: {error}", listener.text)));
            continue;
        };
        is_own |= Some(holder.pid) == running;
        if Some(holder.pid) != running && holder.pid != INIT {
            found.push(format!("listen   {}: {} is in use by {holder}", listener.text, listener.address));
        }
    }
    for (key, socket) in admin_sockets(config) {
        let address = Address::Tcp(socket);
        match Holder::of(&address) {
            Some(holder) if Some(holder.pid) == running => is_own = true,
            Some(holder) => found.push(format!("{key:<8} {socket} is in use by {holder}")),
            None => found.extend(ListenError::foreseen(&address).map(|error| format!("{key:<8} {error}"))),
        }
    }
    let data = holder.filter(|_| !is_own).map(|holder| in_use(&holder, running));
    let data = data.or_else(|| unusable(&config.data));
    found.extend(data.map(|why| format!("data     {}: {why}", config.data.display())));
    let shortage = DiskShortage::foreseen(&DiskStorage, &config.spool_options());
    found.extend(shortage.map(|shortage| format!("spool    {shortage}; {}", DiskShortage::REMEDY)));
    found.extend(config.memory.problem().map(|problem| format!("memory   {problem}")));
    found.extend(config.hidden_by_links());
    for sink in &config.sinks {
        let why = sink.file().and_then(unusable_file).or_else(|| sink.directory().and_then(unusable));
        found.extend(why.map(|why| format!("sink     {}: {why}", sink.text)));
    }
    found
}

/// The admin, and where it answers probes alone.
fn admin_sockets(config: &Config) -> impl Iterator<Item = (&'static str, SocketAddr)> {
    [("admin", config.admin), ("probe", config.probe)].into_iter().filter_map(|(key, at)| Some((key, at?)))
}

/// Listeners, the admin and its address for probes that need one port. Sockets of systemd may share it, so it is no mistake in itself.
fn overlaps(config: &Config) -> Vec<String> {
    let admin = admin_sockets(config).map(|(key, at)| (key, at.to_string(), Address::Tcp(at)));
    let listen = config.listen.iter().map(|spec| ("listen", spec.text.clone(), spec.address.clone()));
    let all: Vec<(&str, String, Address)> = listen.chain(admin).collect();
    let pairs =
        all.iter().enumerate().flat_map(|(place, one)| all[..place].iter().map(move |other| (one, other)));
    pairs
        .filter(|((_, _, one), (_, _, other))| one.overlaps(other))
        .map(|((kind, text, _), (_, other, _))| {
            format!("{kind:<8} {text}: it overlaps {other}; give one of them another port")
        })
        .collect()
}

/// Who has locked the data directory. Only if a process runs that the lock file names, the lock is tried: so no server is disturbed that
/// takes it at this moment, as the file does not name it yet.
fn holder_of(data: &Path) -> Option<String> {
    let pid: u32 = fs::read_to_string(data.join("lock")).ok()?.trim().parse().ok()?;
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return None;
    }
    match DirectoryLock::share(data) {
        Err(SpoolError::Locked { holder, .. }) => Some(holder),
        _ => None,
    }
}

fn in_use(holder: &str, running: Option<u32>) -> String {
    let reload =
        running.map(|pid| format!("; if it is to use this configuration, reload it (kill -HUP {pid})"));
    format!("it is in use by {holder}; stop it, or choose another directory{}", reload.unwrap_or_default())
}

/// Why this user cannot write into a directory, or make it.
fn unusable(directory: &Path) -> Option<String> {
    // The directory of a mere file name has no letters.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let absolute = std::path::absolute(directory).ok()?;
    let there: PathBuf = absolute.ancestors().find(|path| path.exists())?.to_owned();
    let shown = there.display();
    if !there.is_dir() {
        return Some(format!("{shown} is not a directory; choose another path"));
    }
    let why = access(&there, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!(
        "this user cannot write into {shown}: {why}; change its owner or its mode, or choose another directory"
    ))
}

/// Why this user cannot write to a file that exists, or why no file can have its path.
fn unusable_file(path: &Path) -> Option<String> {
    let shown = path.display();
    if path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/") {
        return Some(format!("{shown} names a directory; write the path of a file"));
    }
    let why = path.exists().then(|| access(path, Access::WRITE_OK).err()).flatten()?;
    Some(format!(
        "this user cannot write to {shown}: {why}; change its owner or its mode, or choose another file"
    ))
}
