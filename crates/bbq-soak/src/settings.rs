//! The server's configuration, drawn for each reload.

use std::path::PathBuf;

use crate::home::Home;
use crate::random::Random;

/// The addresses and paths of a run.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// bbq+tcp, lines+tcp, syslog+tcp, syslog+udp, whole+tcp, bbq+udp, admin.
    pub(crate) ports: [u16; 7],
    pub(crate) socket: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) home: Home,
    /// The directory of the clients' spools.
    pub(crate) clients: PathBuf,
}

impl Places {
    pub(crate) fn address(&self, index: usize) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.ports[index]).into()
    }

    /// The addresses for bbq clients.
    pub(crate) fn servers(&self) -> [String; 2] {
        [format!("bbq://{}", self.address(0)), format!("bbq+unix://{}", self.socket.display())]
    }
}

/// The sizes of segments to draw from.
const SEGMENTS: [u64; 3] = [64 * 1024, 1024 * 1024, 64 * 1024 * 1024];
/// The fewest segments that a spool has room for, for three workers.
const SEGMENTS_MIN: u64 = 10;

/// Settings that need a restart.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    segment_bytes: u64,
    bytes_max: u64,
    /// The most workers. The first configuration has this number of workers.
    workers: u64,
    is_first: bool,
    /// The distribution: it decides the number of sockets.
    distribution: &'static str,
}

/// Options of a file sink: when it begins a new file.
pub(crate) const ROTATIONS: [&str; 4] =
    ["rotate=never", "rotate_bytes=1MiB", "rotate_bytes=4MiB", "rotate_bytes=64MiB"];
/// How connections are spread.
const DISTRIBUTIONS: [&str; 4] = ["auto", "reuseport", "shared", "duplicate=2"];
/// The most workers.
pub(crate) const WORKERS_MAX: u64 = 3;

impl Sizes {
    pub(crate) fn draw(random: &mut Random, segment_bytes: Option<u64>, workers_max: u64) -> Sizes {
        let drawn = *random.one_of(&SEGMENTS);
        let segment_bytes = segment_bytes.unwrap_or(drawn);
        let least = *random.one_of(&[96_u64, 512]) * 1024 * 1024;
        let workers = 1 + random.below(workers_max);
        let distribution = *random.one_of(&DISTRIBUTIONS);
        Sizes {
            segment_bytes,
            bytes_max: least.max(SEGMENTS_MIN * segment_bytes),
            workers,
            is_first: true,
            distribution,
        }
    }
}

/// A random configuration.
pub(crate) fn draw(random: &mut Random, places: &Places, sizes: &mut Sizes) -> String {
    let [bbq, lines, syslog, datagrams, whole, batches, _] = places.ports;
    let oversize = *random.one_of(&["refuse", "cut"]);
    let rotate = *random.one_of(&ROTATIONS);
    format!(
        "listen = [\n\
         \"bbq+tcp://127.0.0.1:{bbq}\",\n\"bbq+unix://{}\",\n\"bbq+udp://127.0.0.1:{batches}\",\n\
         \"lines+tcp://127.0.0.1:{lines}?on_oversize={oversize}\",\n\"syslog+tcp://127.0.0.1:{syslog}\",\n\
         \"syslog+udp://127.0.0.1:{datagrams}\",\n\"whole+tcp://127.0.0.1:{whole}\",\n]\n\
         sink = [\"file:{}?{rotate}\"]\n{}",
        places.socket.display(),
        places.output.display(),
        draw_rest(random, &places.home, sizes),
    )
}

/// The part of a random configuration that has no listeners and no sinks.
pub(crate) fn draw_rest(random: &mut Random, home: &Home, sizes: &mut Sizes) -> String {
    let fewer = 1 + random.below(sizes.workers);
    let keeps = std::mem::replace(&mut sizes.is_first, false) || random.percent(60);
    let (workers, distribution) = (if keeps { sizes.workers } else { fewer }, sizes.distribution);
    let flush = *random.one_of(&[0, 1, 10, 100]);
    let stall = *random.one_of(&[0, 10, 50]);
    format!(
        "data = \"{}\"\nadmin = \"{}\"\n\
         workers = {workers}\ndistribution = \"{distribution}\"\nstall_threshold_ms = {stall}\n\
         [spool]\nsegment_bytes = {}\nbytes_max = {}\nflush_interval_ms = {flush}\n",
        home.data.display(),
        home.admin,
        sizes.segment_bytes,
        sizes.bytes_max,
    )
}
