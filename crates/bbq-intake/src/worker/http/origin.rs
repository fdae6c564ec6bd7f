//! From where a request comes, by its headers: a browser lets any page send to any server that it reaches, also to one that listens on
//! the user's own machine.
//!
//! A page needs no permission for a POST of text (fetch.spec.whatwg.org, "no-cors"); the browser says so in `Sec-Fetch-Site`, or in `Origin`.
//! A page whose name its owner has pointed to 127.0.0.1 (DNS rebinding) is of the same site, but comes with that name as Host.

use bbq_wire::Peer;
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Uri, Version};

use super::refused::Refused;
use crate::access::is_own_name;

/// Which site's page made the request: of the same one, of none, of another one (w3.org/TR/fetch-metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request whose host is not clear, and one that a page of another site made.
pub(super) fn check(version: Version, uri: &Uri, headers: &HeaderMap, peer: Peer) -> Result<(), Refused> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    // RFC 9112, 3.2. In HTTP/2 it is in the URI.
    if hosts.next().is_some() || host.is_none() && version == Version::HTTP_11 {
        return Err(Refused::Host);
    }
    let site = headers.get(SEC_FETCH_SITE);
    if site.is_some_and(|site| site == "cross-site") {
        return Err(Refused::OtherSite);
    }
    let is_browser = site.is_some() || headers.contains_key(ORIGIN);
    let is_of_machine = matches!(peer, Peer::Inet(address) if address.ip().is_loopback());
    if !is_browser || !is_of_machine {
        return Ok(());
    }
    let name = match host {
        Some(host) => String::from_utf8_lossy(host.as_bytes()),
        None => uri.authority().map_or("", |authority| authority.as_str()).into(),
    };
    if is_own_name(&name) { Ok(()) } else { Err(Refused::OtherName(name.into_owned())) }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn checked(version: Version, peer: &str, headers: &[(HeaderName, &'static str)]) -> Result<(), Refused> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_static(value));
        }
        check(
            version,
            &Uri::from_static("/"),
            &map,
            Peer::Inet((peer.parse::<std::net::IpAddr>().unwrap(), 1).into()),
        )
    }

    #[test]
    fn a_request_has_one_host() {
        let of = |version, headers: &[_]| checked(version, "192.0.2.1", headers);
        assert!(of(Version::HTTP_11, &[(HOST, "a")]).is_ok());
        assert!(of(Version::HTTP_10, &[]).is_ok() && of(Version::HTTP_2, &[]).is_ok());
        assert!(matches!(of(Version::HTTP_11, &[]), Err(Refused::Host)));
        assert!(matches!(of(Version::HTTP_10, &[(HOST, "a"), (HOST, "a")]), Err(Refused::Host)));
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let of = |peer, headers: &[_]| checked(Version::HTTP_10, peer, headers);
        for site in ["none", "same-origin", "same-site"] {
            assert!(of("192.0.2.1", &[(HOST, "logs.example"), (SEC_FETCH_SITE, site)]).is_ok(), "{site}");
        }
        assert!(matches!(
            of("192.0.2.1", &[(HOST, "a"), (SEC_FETCH_SITE, "cross-site")]),
            Err(Refused::OtherSite)
        ));
        // A program may use any name.
        assert!(of("127.0.0.1", &[(HOST, "logs.example")]).is_ok());
        for own in ["localhost", "LOCALHOST:80", "127.0.0.2:80", "[::1]:80", "[::1]", "192.0.2.1"] {
            assert!(of("::1", &[(HOST, own), (ORIGIN, "http://localhost")]).is_ok(), "{own}");
        }
        for other in ["evil.example:80", "localhost.evil.example", "", "\""] {
            let found = of("127.0.0.1", &[(HOST, other), (ORIGIN, "http://evil.example")]);
            assert!(matches!(found, Err(Refused::OtherName(_))), "{other}");
        }
    }
}
