//! A server whose responses a test chooses.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

/// A test that does not look at the bodies posts less.
const BODIES_MAX: usize = 16 * 1024;

/// A response without a body, such as of `204 No Content`.
pub(crate) fn response(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
}

/// Returns the address of a server, and the bodies that are posted to it. `respond` is given each body, and returns the bytes of the response;
/// or nothing, and the client waits.
pub(crate) fn serve(
    mut respond: impl FnMut(&str) -> Option<String> + Send + 'static,
) -> (String, Receiver<String>) {
    serve_with_heads(move |_, body| respond(body))
}

/// The same; `respond` is given the head of each request, in small letters, and its body.
pub(crate) fn serve_with_heads(
    respond: impl FnMut(&str, &str) -> Option<String> + Send + 'static,
) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its own").to_string();
    let (told, bodies) = mpsc::sync_channel(BODIES_MAX);
    let respond = Arc::new(Mutex::new(respond));
    std::thread::spawn(move || {
        // Connections stay open.
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            open.push(stream.try_clone().expect("a descriptor"));
            let (told, respond) = (told.clone(), Arc::clone(&respond));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while let Some((head, body)) = request(&mut reader) {
                    let response = respond.lock().expect("it does not panic")(&head, &body);
                    if told.send(body).is_err() {
                        return;
                    }
                    let sent = reader.get_mut().write_all(response.unwrap_or_default().as_bytes());
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, bodies)
}

/// Reads a request. Returns its head, in small letters, and its body; `None` at the end.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|bytes| *bytes > 0)?;
    }
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1)?.split("\r\n").next()?;
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    // What is no text is of no matter to a test that looks at bodies.
    Some((head, String::from_utf8_lossy(&body).into_owned()))
}
