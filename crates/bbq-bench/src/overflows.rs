//! How many connections have found the queue of a listening socket full, since this machine was started.

/// `ListenOverflows` of /proc/net/netstat; none where the system does not count them.
pub(crate) fn count() -> Option<u64> {
    count_in(&std::fs::read_to_string("/proc/net/netstat").ok()?)
}

/// The line of the names, and the line of the numbers behind it, begin with the same word.
fn count_in(netstat: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|name| name == "ListenOverflows")?;
    numbers.split(' ').nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_below_its_name() {
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 23 456\nIpExt: InNoRoutes\nIpExt: 0\n";
        assert_eq!(count_in(netstat), Some(23));
        assert_eq!(count_in("TcpExt: ListenDrops\nTcpExt: 1\n"), None);
        assert!(count().is_some());
    }
}
