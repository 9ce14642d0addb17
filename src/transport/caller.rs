//! Who calls: address, device, token. Whether a token is good is `domain::users`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};

use crate::config::Network;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const DEVICE_ID: HeaderName = HeaderName::from_static("x-device-id");
/// Characters.
const LONGEST_DEVICE_ID: usize = 128;
/// Characters; ours are far shorter, and nothing longer is worth a question to Redis.
const LONGEST_TOKEN: usize = 256;

/// What a request says about who sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    /// Nothing: signed out.
    None,
    /// A bearer token, good or not.
    Token(String),
    /// Something that can be no token of ours.
    Unusable,
}

impl Credentials {
    /// Of an HTTP request.
    pub(super) fn of_headers(headers: &HeaderMap) -> Self {
        match headers.get(header::AUTHORIZATION) {
            None => Self::None,
            Some(value) => value.to_str().map_or(Self::Unusable, Self::parse),
        }
    }

    /// Reads `Bearer <token>`.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::None;
        }
        match text.split_once(' ') {
            Some((scheme, token))
                if scheme.eq_ignore_ascii_case("bearer") && is_token(token.trim()) =>
            {
                Self::Token(token.trim().to_owned())
            }
            _ => Self::Unusable,
        }
    }
}

/// The address of the client: the peer, or what the trusted proxies in front of us say, read from the nearest one.
pub(super) fn client_address(
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    trusted: &[Network],
) -> IpAddr {
    let peer = peer
        .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
        .to_canonical();
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut nearest = peer;
    let hops: Vec<&str> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    for hop in hops.into_iter().rev() {
        if !is_trusted(nearest) {
            break;
        }
        match parse_hop(hop.trim()) {
            Some(address) => nearest = address.to_canonical(),
            None => break,
        }
    }
    nearest
}

/// An address as proxies write it: some with the port, and then IPv6 in brackets.
fn parse_hop(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']'));
    let with_port = || hop.parse::<SocketAddr>().ok().map(|hop| hop.ip());
    bare.unwrap_or(hop).parse().ok().or_else(with_port)
}

/// The device's fingerprint, if it is one that can be kept.
pub(super) fn device_id(headers: &HeaderMap) -> Option<String> {
    parse_device_id(headers.get(DEVICE_ID)?.to_str().ok()?)
}

/// As [`device_id`], from wherever it came.
pub(super) fn parse_device_id(text: &str) -> Option<String> {
    let fits = !text.is_empty()
        && text.len() <= LONGEST_DEVICE_ID
        && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.to_owned())
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_TOKEN && text.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use axum::http::{HeaderMap, HeaderValue};

    use super::{Credentials, FORWARDED_FOR, client_address};

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn forwarded(values: &[&'static str]) -> HeaderMap {
        values
            .iter()
            .map(|value| (FORWARDED_FOR, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_a_trusted_proxy_may_say_who_calls() {
        let headers = forwarded(&["198.51.100.1, 203.0.113.7", "10.0.0.2"]);
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        assert_eq!(
            client_address(Some(address("10.0.0.1")), &headers, &trusted),
            address("203.0.113.7")
        );
        assert_eq!(
            client_address(Some(address("192.0.2.1")), &headers, &trusted),
            address("192.0.2.1")
        );
        assert_eq!(
            client_address(Some(address("10.0.0.1")), &headers, &[]),
            address("10.0.0.1")
        );
        assert_eq!(
            client_address(
                Some(address("10.0.0.1")),
                &forwarded(&["nonsense"]),
                &trusted
            ),
            address("10.0.0.1")
        );
    }

    #[test]
    fn a_proxy_may_write_the_port_too() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        for (hop, client) in [
            ("203.0.113.7:4711", "203.0.113.7"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[203.0.113.7", "10.0.0.1"),
            ("203.0.113.7:x", "10.0.0.1"),
        ] {
            let found = client_address(Some(address("10.0.0.1")), &forwarded(&[hop]), &trusted);
            assert_eq!(found, address(client), "{hop}");
        }
    }

    #[test]
    fn a_bearer_token_is_read_and_anything_else_is_no_token() {
        assert_eq!(
            Credentials::parse("bearer  abc"),
            Credentials::Token("abc".to_owned())
        );
        assert_eq!(Credentials::parse(" "), Credentials::None);
        for odd in ["abc", "Basic abc", "Bearer a b", "Bearer"] {
            assert_eq!(Credentials::parse(odd), Credentials::Unusable, "{odd}");
        }
    }
}
