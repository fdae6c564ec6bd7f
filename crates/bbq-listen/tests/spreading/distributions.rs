//! If this fails, a distribution leaves connections waiting, or does not spread them as it promises.

use std::net::TcpStream;

use crate::serving::{Serving, answer, ask};
use bbq_listen::Distribution;

const WORKERS: usize = 4;
const CONNECTIONS: u64 = 2000;
const CLIENTS: u64 = 8;
/// Chi-square, three degrees of freedom: exceeded by chance once in 10,000 runs. The ports of the clients are the kernel's
/// choice and so is the hash's secret, so a run cannot be repeated.
const CHI_SQUARE_MAX: f64 = 21.11;

/// Connections one after the other from several clients at once; answers what each worker served.
fn load(word: &str) -> Vec<u64> {
    let group = crate::common::group("tcp", word.parse().unwrap(), WORKERS);
    assert_eq!(group.distribution().to_string(), word, "{:?}", group.fallback());
    let serving = Serving::start(&group);
    let to = crate::common::port_of(&group);
    std::thread::scope(|threads| {
        for _ in 0..CLIENTS {
            threads.spawn(move || (0..CONNECTIONS / CLIENTS).for_each(|_| _ = ask(to)));
        }
    });
    let served = serving.stop();
    assert_eq!(served.iter().sum::<u64>(), CONNECTIONS);
    assert_eq!(group.taken(), served);
    served
}

fn chi_square(served: &[u64]) -> f64 {
    let expected = served.iter().sum::<u64>() as f64 / served.len() as f64;
    served.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn reuseport_and_handoff_are_even() {
    for word in ["reuseport", "handoff"] {
        let served = load(word);
        let chi_square = chi_square(&served);
        println!("{word}: {served:?}, chi-square {chi_square:.2}");
        assert!(chi_square < CHI_SQUARE_MAX, "{word}: {served:?}, chi-square {chi_square:.2}");
    }
}

#[test]
fn shared_accept_mutex_and_duplicate_serve_everybody() {
    for word in ["shared", "accept-mutex", "duplicate", "duplicate=3"] {
        let served = load(word);
        // The workers take turns; how many connections each finds is chance.
        assert!(word != "accept-mutex" || !served.contains(&0), "{served:?}");
        println!("{word}: {served:?}, chi-square {:.2}", chi_square(&served));
    }
}

#[test]
fn long_connections_go_to_who_has_the_fewest() {
    let group = crate::common::group("tcp", "handoff=fewest".parse().unwrap(), WORKERS);
    let serving = Serving::start(&group);
    let mut streams: Vec<TcpStream> =
        (0..8).map(|_| TcpStream::connect(crate::common::port_of(&group)).unwrap()).collect();
    let mut open = [0; WORKERS];
    for stream in &mut streams {
        open[usize::from(answer(stream))] += 1;
    }
    serving.stop();
    assert!(open.iter().max().unwrap() - open.iter().min().unwrap() <= 1, "{open:?}");
}

#[test]
fn unix_sockets_are_spread_too() {
    let directory = tempfile::tempdir().unwrap();
    for word in ["shared", "accept-mutex", "handoff"] {
        let path = directory.path().join(word);
        let address = bbq_listen::Address::parse("unix", path.to_str().unwrap()).unwrap();
        let options = bbq_listen::GroupOptions::new(address, WORKERS).distribution(word.parse().unwrap());
        let group = bbq_listen::Group::open(&options).unwrap();
        let serving = Serving::start(&group);
        for _ in 0..100 {
            let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
            std::io::Read::read_exact(&mut stream, &mut [0]).unwrap();
        }
        assert_eq!(serving.stop().iter().sum::<u64>(), 100, "{word}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    for (transport, word, reason) in [
        ("udp", "accept-mutex", "received, not accepted"),
        ("udp", "handoff=fewest", "received, not accepted"),
        ("unix", "reuseport", "no SO_REUSEPORT"),
        ("unix", "duplicate=2", "no SO_REUSEPORT"),
        ("tcp", "duplicate=2000", "1 to 1024"),
    ] {
        let address = if transport == "unix" { "/tmp/never-made" } else { "127.0.0.1:0" };
        let address = bbq_listen::Address::parse(transport, address).unwrap();
        let distribution: Distribution = word.parse().unwrap();
        let options = bbq_listen::GroupOptions::new(address, 2).distribution(distribution);
        let error = bbq_listen::Group::open(&options).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(reason), "{error}");
    }
}
