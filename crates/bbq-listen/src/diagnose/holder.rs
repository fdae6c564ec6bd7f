//! Finds the process that holds an address, for error messages: the socket's inode from the kernel's socket diagnosis or /proc/net, its
//! owner from /proc/PID/fd.
//!
//! /proc/net/tcp has every connection, and takes a second to read where there are some 100,000. So it is read only where netlink is blocked.
//!
//! It sees this network namespace only, and processes of other users only as root.
//!
//! Invariant: it returns no error; a holder that cannot be found is `None`.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::Address;
use crate::address::overlap;
use crate::diagnose::inet_diag::{Protocol, bound_sockets};

/// `TCP_LISTEN`, as /proc/net/tcp writes it.
const STATE_LISTEN: &str = "0A";
/// `__SO_ACCEPTCON`, as /proc/net/unix writes it: the socket listens.
const FLAG_LISTENS: &str = "00010000";

/// A process that holds a socket.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::Holder;
///
/// if let Some(holder) = Holder::of(&"tcp://127.0.0.1:80".parse()?) {
///     println!("{holder} listens there");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// The first 15 bytes of its command's name (/proc/PID/comm).
    pub command: String,
}

impl Holder {
    /// The process that holds `address`, or an address that overlaps it (0.0.0.0 overlaps every one). `None` if /proc does not show
    /// it.
    #[must_use]
    pub fn of(address: &Address) -> Option<Holder> {
        inodes(address).into_iter().find_map(owner_of)
    }
}

/// Whether a socket has `address`, or an address that overlaps it, whoever holds the socket.
pub(crate) fn is_held(address: &Address) -> bool {
    !inodes(address).is_empty()
}

fn inodes(address: &Address) -> Vec<u64> {
    match address {
        Address::Tcp(wanted) => listening_inodes(*wanted)
            .unwrap_or_else(|_| internet_inodes(&["/proc/net/tcp", "/proc/net/tcp6"], *wanted, true)),
        // One that has a peer holds its address, too.
        Address::Udp(wanted) => internet_inodes(&["/proc/net/udp", "/proc/net/udp6"], *wanted, false),
        Address::Unix(path) | Address::UnixDatagram(path) => unix_inodes(path),
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({})", self.pid, self.command)
    }
}

fn listening_inodes(wanted: SocketAddr) -> rustix::io::Result<Vec<u64>> {
    let sockets = bound_sockets(Protocol::Tcp, wanted.port())?;
    Ok(sockets.iter().filter(|socket| overlap(socket.address, wanted)).map(|socket| socket.inode).collect())
}

fn internet_inodes(files: &[&str], wanted: SocketAddr, listening_only: bool) -> Vec<u64> {
    let tables = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    tables
        .flat_map(|table| {
            let lines = table.lines().skip(1).filter_map(|line| internet_line(line, listening_only));
            lines.filter(|(local, _)| overlap(*local, wanted)).map(|(_, inode)| inode).collect::<Vec<_>>()
        })
        .collect()
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...`
fn internet_line(line: &str, listening_only: bool) -> Option<(SocketAddr, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    if listening_only && state != STATE_LISTEN {
        return None;
    }
    Some((hexadecimal_address(local)?, inode))
}

/// `0100007F:1E61`: the address as 32-bit words in the machine's byte order, the port as a number.
fn hexadecimal_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = [0_u8; 16];
    let length = address.len() / 2;
    for (index, word) in bytes.get_mut(..length)?.chunks_exact_mut(4).enumerate() {
        let digits = address.get(index * 8..index * 8 + 8)?;
        // In native byte order, the bytes of the word are the address in network order.
        let value = u32::from_str_radix(digits, 16).ok()?;
        word.copy_from_slice(&if cfg!(target_endian = "little") {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        });
    }
    let address = match length {
        4 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        16 => IpAddr::V6(Ipv6Addr::from(bytes)),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

/// The sockets bound to `path`. Accepted connections have the listener's path, too, so listeners are sorted first.
fn unix_inodes(path: &Path) -> Vec<u64> {
    // Abstract names begin with @ there, and so do files of such a name.
    let Some(wanted) = path.to_str().map(|path| path.replace('\0', "@")) else { return Vec::new() };
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<(bool, u64)> = table
        .lines()
        .filter_map(unix_line)
        .filter(|(_, _, name)| *name == wanted)
        .map(|(flags, inode, _)| (flags != FLAG_LISTENS, inode))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, inode)| inode).collect()
}

/// `Num RefCount Protocol Flags Type St Inode Path`: flags, inode and path. The columns are padded, and a path may have
/// spaces in it.
fn unix_line(line: &str) -> Option<(&str, u64, &str)> {
    let mut rest = line;
    let mut fields = [""; 7];
    for field in &mut fields {
        (*field, rest) = rest.trim_start().split_once(' ')?;
    }
    Some((fields[3], fields[6].parse().ok()?, rest))
}

/// The process that has the socket with this inode; the one with the lowest number if several have it.
pub(crate) fn owner_of(inode: u64) -> Option<Holder> {
    let wanted = format!("socket:[{inode}]");
    let pids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = pids.collect();
    // Children inherit sockets, and a parent usually has the lower number.
    pids.sort_unstable();
    let pid = pids.into_iter().find(|pid| holds(*pid, &wanted))?;
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(Holder { pid, command: command.trim_end().to_owned() })
}

fn holds(pid: u32, link: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors
        .flatten()
        .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == link))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_of_proc_are_read() {
        let v4 = hexadecimal_address("0100007F:1E61").unwrap();
        assert_eq!(v4.to_string(), "127.0.0.1:7777");
        let v6 = hexadecimal_address("00000000000000000000000001000000:1E61").unwrap();
        assert_eq!(v6.to_string(), "[::1]:7777");
        for broken in ["", "0100007F", "01:02", "zz00007F:1E61", &format!("{}:0001", "0".repeat(64))] {
            assert_eq!(hexadecimal_address(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_kernel_and_proc_name_the_same_listeners() {
        let listeners =
            ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"].map(|at| TcpListener::bind(at).unwrap());
        let inode = |listener: &TcpListener| rustix::fs::fstat(listener).unwrap().st_ino;
        for listener in &listeners {
            let port = listener.local_addr().unwrap().port();
            // A connection is at the address, too, and does not hold it.
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _connection = listener.accept().unwrap();
            for wanted in ["127.0.0.1", "[::1]", "0.0.0.0", "[::]", "127.9.8.7"] {
                let wanted: SocketAddr = format!("{wanted}:{port}").parse().unwrap();
                let of_kernel = listening_inodes(wanted).unwrap();
                let of_proc = internet_inodes(&["/proc/net/tcp", "/proc/net/tcp6"], wanted, true);
                assert_eq!(of_kernel, of_proc, "{wanted}");
                let is_its = of_kernel.contains(&inode(listener));
                assert_eq!(is_its, overlap(listener.local_addr().unwrap(), wanted), "{wanted}");
            }
        }
    }

    #[test]
    fn unix_lines_are_read() {
        // Without privileges the first column is all zeros.
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01   123 /run/a b";
        assert_eq!(unix_line(line), Some(("00010000", 123, "/run/a b")));
        let line = "0000000000000000: 00000002 00000000 00000000 0002 01 98765 /run/log";
        assert_eq!(unix_line(line), Some(("00000000", 98765, "/run/log")));
        for broken in ["", "Num       RefCount Protocol Flags    Type St Inode Path", "0: 2 0 0 1 1 123"] {
            assert_eq!(unix_line(broken), None, "{broken}");
        }
    }
}
