//! Connections from many addresses: one pair of addresses has at most 64 Ki of them, and a hash spreads only different ones.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// The `number`-th address of loopback, from 127.1.0.0 on.
pub fn source(number: u32) -> Ipv4Addr {
    assert!(number < 1 << 23, "there are no more in 127.0.0.0/8");
    Ipv4Addr::from(0x7f01_0000 + number)
}

/// Connects from an address and a port of the system's choice.
pub fn connect_from(source: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    bind(&socket, &SocketAddr::V4(SocketAddrV4::new(source, 0))).expect("an address of loopback");
    connect(&socket, &to).unwrap_or_else(|error| panic!("{to} does not take {source}: {error}"));
    TcpStream::from(socket)
}

/// Connects once per number, each time from another address, sends a line that names the number, and closes.
pub fn short_connections(numbers: std::ops::Range<u32>, to: SocketAddr) {
    for number in numbers {
        let mut stream = connect_from(source(number), to);
        stream.write_all(format!("line {number}\n").as_bytes()).expect("it reads");
    }
}

/// The same from this many threads at once.
pub fn short_connections_at_once(threads: u32, numbers: std::ops::Range<u32>, to: SocketAddr) {
    let share = (numbers.end - numbers.start).div_ceil(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let from = numbers.start + thread * share;
            let numbers = from..(from + share).min(numbers.end);
            scope.spawn(move || short_connections(numbers, to));
        }
    });
}

/// Checks that a file holds `line NUMBER` once for each number, and nothing else.
pub fn assert_numbered_lines(written: &[u8], numbers: std::ops::Range<u32>) {
    let mut seen = vec![false; (numbers.end - numbers.start) as usize];
    for line in String::from_utf8_lossy(written).lines() {
        let number = line.strip_prefix("line ").and_then(|number| number.parse::<u32>().ok());
        let number = number.filter(|number| numbers.contains(number));
        let Some(number) = number else { panic!("nobody sent {line:?}") };
        let place = &mut seen[(number - numbers.start) as usize];
        assert!(!*place, "line {number} is there twice");
        *place = true;
    }
    let missing = seen.iter().filter(|seen| !**seen).count();
    assert_eq!(missing, 0, "{missing} lines are missing");
}
