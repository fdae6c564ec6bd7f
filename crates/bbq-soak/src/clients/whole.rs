//! A connection for each message. The server closes the connection in order when it has the message.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::client::{Client, Field, PATIENCE};
use crate::book::Promise;
use crate::message::Message;

/// The pause between two connections. Ports stay in TIME_WAIT for a minute, and must not run out.
const PAUSE: Duration = Duration::from_millis(5);
/// Messages of one run.
const RUN_MESSAGES: u64 = 1000;

pub(super) struct Whole {
    server: SocketAddr,
    run: Option<u32>,
}

impl Whole {
    pub(super) fn new(server: SocketAddr) -> Whole {
        Whole { server, run: None }
    }

    fn exchange(&self, message: Message) -> std::io::Result<()> {
        let mut text = Vec::new();
        message.write(&mut text);
        let mut stream = TcpStream::connect(self.server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&text)?;
        stream.shutdown(Shutdown::Write)?;
        match stream.read(&mut [0; 1])? {
            0 => Ok(()),
            _ => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Client for Whole {
    fn name(&self) -> String {
        "whole over tcp".to_owned()
    }

    fn work(&mut self, field: &Field) -> Result<(), String> {
        while !field.is_stopping() {
            let run = self.run.unwrap_or_else(|| field.book.begin(self.name(), Promise::default()));
            self.run = Some(run);
            let number = field.book.send(run, 1);
            let (epoch, stops) = (field.book.epoch(), field.book.stops());
            let done = self.exchange(Message { run, number });
            if done.is_ok() && stops.is_some() && (epoch, stops) == (field.book.epoch(), field.book.stops()) {
                field.book.acknowledge_single(run, number, epoch);
            }
            if number >= RUN_MESSAGES {
                self.run = None;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
