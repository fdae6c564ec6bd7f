//! Replaces `tls` if the feature of that name is off. A sender with an address that needs TLS is refused when it is started
//! ([`crate::tls_options`]), so no value of these types ever exists.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use crate::delivery::error::ConnectionError;
use crate::delivery::received::Received;
use crate::options::Options;
use crate::{ServerAddress, StartError};

pub(crate) enum Client {}

pub(crate) enum Writer {}

pub(crate) enum Reader {}

impl Client {
    pub(crate) fn open(_options: &Options) -> Result<Option<Client>, StartError> {
        Ok(None)
    }

    pub(crate) fn connect(
        &self,
        _socket: TcpStream,
        _address: &ServerAddress,
        _limit: Duration,
    ) -> Result<(Writer, Reader), ConnectionError> {
        match *self {}
    }
}

impl Writer {
    pub(crate) fn socket(&self) -> &TcpStream {
        match *self {}
    }

    pub(crate) fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match *self {}
    }
}

impl Reader {
    pub(crate) fn socket(&self) -> &TcpStream {
        match *self {}
    }

    pub(crate) fn read(&mut self, _buffer: &mut [u8]) -> Result<Received, ConnectionError> {
        match *self {}
    }

    pub(crate) fn explain(&self, _error: ConnectionError) -> ConnectionError {
        match *self {}
    }
}
