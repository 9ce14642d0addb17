//! A range of addresses in CIDR notation. Not for resolving names.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of addresses, for example `10.0.0.0/8`; a single address is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether the address is in the range. An IPv4 address written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.prefix))
                    .unwrap_or(0);
                base.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.prefix))
                    .unwrap_or(0);
                base.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is not an address or a range such as 10.0.0.0/8");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let base: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if base.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(longest);
        if prefix > longest {
            Err(wrong())
        } else {
            Ok(Self { base, prefix })
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn a_range_holds_its_addresses_and_no_others() {
        let network: Network = "10.1.0.0/16".parse().unwrap();
        assert!(network.contains("10.1.255.1".parse().unwrap()));
        assert!(network.contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!network.contains("10.2.0.1".parse().unwrap()));
        assert!(
            "0.0.0.0/0"
                .parse::<Network>()
                .unwrap()
                .contains("203.0.113.9".parse().unwrap())
        );
        assert!(
            !"::1"
                .parse::<Network>()
                .unwrap()
                .contains("::2".parse().unwrap())
        );
    }

    #[test]
    fn nonsense_is_no_range() {
        for text in ["", "10.0.0.0/33", "example.org", "10.0.0.0/x"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
