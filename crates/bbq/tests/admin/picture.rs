//! The picture of the README: the page while messages flow. If this fails, it would show a page without a flow, or be too large.

use std::fs;
use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::browser::Browser;
use super::page::url;
use crate::support::Setup;

/// If this variable is set, the picture is written.
const WRITE: &str = "BBQ_WRITE_PICTURES";
const BYTES_MAX: usize = 200 * 1024;
/// Enough for a history that can be seen.
const SECONDS_SHOWN: u32 = 90;
/// The page has the names and ports of a server as a reader may have it, instead of those of the test.
const NAMES: &str = "const read = Response.prototype.json;
    const ports = { agents: 7700, app: 7701, routers: 5514, 'web-hooks': 7780 };
    const named = (listener) => ({ ...listener, address: listener.address.replace(/\\d+$/, ports[listener.name]) });
    Response.prototype.json = async function () {
        const value = await read.call(this);
        if (!value.host) return value;
        return { ...value, host: 'logs-1', data: '/var/lib/bbq', listeners: value.listeners.map(named) };
    };";

#[test]
fn the_page_of_a_busy_server() {
    let setup = Setup::new(&[
        "bbq+tcp://127.0.0.1:{0}?name=agents",
        "lines+tcp://127.0.0.1:{1}?name=app",
        "syslog+udp://127.0.0.1:{2}?name=routers",
        "http+tcp://127.0.0.1:{3}?name=web-hooks",
    ]);
    let mut setup = setup.with(&["--workers", "2"]);
    setup.set_sinks(&["file:{dir}/out.log?name=archive", "null:?name=metrics"]);
    let is_asked = std::env::var_os(WRITE).is_some();
    let server = setup.start();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends_them = server.killed_if_this_fails();
        scope.spawn(|| {
            let mut connections: Vec<TcpStream> =
                (0..12).map(|_| TcpStream::connect(setup.address(1)).expect("it listens")).collect();
            let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            // A day of a service, in a minute and a half: it rises and falls, with a burst now and then.
            for step in 0_u32.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let wave = (f64::from(step) / 90.0).sin().mul_add(250.0, 400.0) as usize;
                let burst = if step % 230 < 12 { 2500 } else { 0 };
                let connection = &mut connections[step as usize % 12];
                let lines = "GET /item/4711 200 812 us\n".repeat(wave + burst);
                // The server is killed if the test fails.
                if connection.write_all(lines.as_bytes()).is_err() {
                    return;
                }
                for _ in 0..step % 7 {
                    let _sent =
                        datagrams.send_to(b"<30>Oct 11 22:14:15 rt7 kernel: eth3 is up", setup.address(2));
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
        });
        let browser = Browser::open(&url(&setup), 1280, 800);
        browser.run(NAMES);
        let seconds = if is_asked { SECONDS_SHOWN } else { 3 };
        // In two parts, as each waits for a minute at most.
        for samples in [seconds / 2, seconds] {
            browser.wait(
                "some history",
                "return fetch('history').then((answer) => answer.json()).then((history) => history.received.length)",
                |taken| taken.as_u64() >= Some(u64::from(samples)),
            );
        }
        browser.wait_shown();
        let flowing = "return document.querySelectorAll('#edges [data-level=flowing]').length";
        browser.wait("the flow", flowing, |edges| edges.as_u64() >= Some(4));
        let title = browser.run("return document.querySelector('header').textContent");
        assert!(title.as_str().is_some_and(|title| title.contains("logs-1:/var/lib/bbq")), "{title}");
        let shown = "return document.getElementById('flow').textContent";
        browser.wait("the ports that readers know", shown, |text| {
            let text = text.as_str().unwrap_or_default();
            ["tcp 127.0.0.1:7700", "tcp 127.0.0.1:7701", "udp 127.0.0.1:5514", "tcp 127.0.0.1:7780"]
                .iter()
                .all(|address| text.contains(address))
        });
        let picture = browser.screenshot();
        is_over.store(true, Ordering::Relaxed);
        assert!(picture.starts_with(b"\x89PNG") && picture.len() < BYTES_MAX, "{} bytes", picture.len());
        if is_asked {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/page.png");
            fs::write(path, &picture).expect("the picture");
        }
    });
}
