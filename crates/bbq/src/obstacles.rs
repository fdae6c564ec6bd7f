//! What a server would meet on this machine now, as far as it shows without opening anything.

use std::fs;
use std::path::{Path, PathBuf};

use bbq_listen::{Address, Holder};
use bbq_server::Config;
use rustix::fs::{Access, access};

/// systemd holds the sockets of services that it starts for the first connection.
const INIT: u32 = 1;

/// A line for each thing that stands in the way.
pub(crate) fn obstacles(config: &Config) -> Vec<String> {
    let running = pid_of_server(&config.data);
    let mut found = Vec::new();
    for listener in &config.listen {
        let holder = Holder::of(&listener.address);
        // What a reload or an upgrade finds in use is its own.
        if let Some(holder) = holder.filter(|holder| Some(holder.pid) != running && holder.pid != INIT) {
            found.push(format!("listen   {}: {} is in use by {holder}", listener.text, listener.address));
        }
    }
    if let Some(admin) = config.admin
        && let Some(holder) = Holder::of(&Address::Tcp(admin)).filter(|holder| Some(holder.pid) != running)
    {
        found.push(format!("admin    {admin} is in use by {holder}"));
    }
    found.extend(unusable(&config.data).map(|why| format!("data     {}: {why}", config.data.display())));
    for sink in &config.sinks {
        let directory = sink.directory();
        found.extend(directory.and_then(unusable).map(|why| format!("sink     {}: {why}", sink.text)));
    }
    found
}

/// Who has locked the data directory, or had: its lock file says so.
fn pid_of_server(data: &Path) -> Option<u32> {
    fs::read_to_string(data.join("lock")).ok()?.trim().parse().ok()
}

/// Why this user cannot write into a directory, or make it.
fn unusable(directory: &Path) -> Option<String> {
    // The directory of a mere file name has no letters.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let absolute = std::path::absolute(directory).ok()?;
    let there: PathBuf = absolute.ancestors().find(|path| path.exists())?.to_owned();
    let shown = there.display();
    if !there.is_dir() {
        return Some(format!("{shown} is not a directory"));
    }
    let why = access(&there, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("this user cannot write into {shown}: {why}"))
}
