//! The part of HTTP/1.1 (RFC 9112) that is needed to answer GET and HEAD with one page.
//!
//! A request with a body is refused. The parser is strict where a proxy could read a request differently: lines end in CR LF, a
//! header's name is right before its colon, and there is one Host.

use memchr::memchr;

/// The longest request line with headers, as in common servers.
pub(crate) const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// A request that we can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    /// Without the page: HEAD.
    pub(crate) head_only: bool,
    /// The target of the request line.
    pub(crate) target: &'a [u8],
    /// The client wants no more on this connection.
    pub(crate) close: bool,
    /// Bytes of the request. 0 < length <= [`REQUEST_BYTES_MAX`].
    pub(crate) length: usize,
}

/// Why there is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is incomplete.
    Incomplete,
    /// 400: it is not HTTP.
    Malformed,
    /// 405: neither GET nor HEAD.
    Method,
    /// 413: it has a body.
    Body,
    /// 431: longer than [`REQUEST_BYTES_MAX`].
    TooLong,
    /// 505: not HTTP/1.
    Version,
}

impl Refusal {
    /// The response, after which the connection is closed, as the beginning of the next request is unknown.
    pub(crate) fn answer(self) -> &'static [u8] {
        match self {
            Self::Incomplete => b"",
            Self::Malformed => {
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::Method => {
                b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::Body => {
                b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::TooLong => {
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::Version => {
                b"HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
        }
    }
}

/// Reads the request that `input` begins with.
pub(crate) fn parse(input: &[u8]) -> Result<Request<'_>, Refusal> {
    let bounded = &input[..input.len().min(REQUEST_BYTES_MAX)];
    match parse_bounded(bounded) {
        Err(Refusal::Incomplete) if bounded.len() == REQUEST_BYTES_MAX => Err(Refusal::TooLong),
        parsed => parsed,
    }
}

fn parse_bounded(input: &[u8]) -> Result<Request<'_>, Refusal> {
    let mut lines = Lines { input, at: 0 };
    let mut first = lines.next()?;
    while first.is_empty() {
        first = lines.next()?; // some clients end a request with one line too many
    }
    let (head_only, target, old) = request_line(first)?;
    let (mut close, mut hosts) = (old, 0);
    loop {
        let line = lines.next()?;
        if line.is_empty() {
            break;
        }
        let colon = memchr(b':', line).ok_or(Refusal::Malformed)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return Err(Refusal::Malformed);
        }
        if name.eq_ignore_ascii_case(b"host") {
            hosts += 1;
        } else if name.eq_ignore_ascii_case(b"connection") {
            let mut options = value.split(|&byte| byte == b',');
            close |= options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding")
            || (name.eq_ignore_ascii_case(b"content-length") && value != b"0")
        {
            return Err(Refusal::Body);
        }
    }
    if hosts > 1 || (hosts == 0 && !old) {
        return Err(Refusal::Malformed);
    }
    Ok(Request { head_only, target, close, length: lines.at })
}

/// `GET /target HTTP/1.1`: whether it is HEAD, the target, and whether it is of HTTP/1.0.
fn request_line(line: &[u8]) -> Result<(bool, &[u8], bool), Refusal> {
    let method_end = memchr(b' ', line).ok_or(Refusal::Malformed)?;
    let (method, rest) = (&line[..method_end], &line[method_end + 1..]);
    let target_end = memchr(b' ', rest).ok_or(Refusal::Malformed)?;
    let (target, version) = (&rest[..target_end], &rest[target_end + 1..]);
    if method.is_empty() || !method.iter().all(|&byte| is_token(byte)) || target.is_empty() {
        return Err(Refusal::Malformed);
    }
    if !target.iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::Malformed);
    }
    let old = match version {
        b"HTTP/1.1" => false,
        b"HTTP/1.0" => true,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(Refusal::Version);
        }
        _ => return Err(Refusal::Malformed),
    };
    match method {
        b"GET" => Ok((false, target, old)),
        b"HEAD" => Ok((true, target, old)),
        _ => Err(Refusal::Method),
    }
}

/// Lines that end in CR LF, without it.
struct Lines<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<&'a [u8], Refusal> {
        let rest = &self.input[self.at..];
        let end = memchr(b'\n', rest).ok_or(Refusal::Incomplete)?;
        self.at += end + 1;
        let line = rest[..end].strip_suffix(b"\r").ok_or(Refusal::Malformed)?;
        if memchr(b'\r', line).is_some() || memchr(0, line).is_some() {
            return Err(Refusal::Malformed);
        }
        Ok(line)
    }
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
