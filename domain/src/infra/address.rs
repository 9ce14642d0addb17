//! Whom a network address stands for.

use std::net::IpAddr;

/// Networks hand whole /64 blocks to one household, so a finer address would be no limit.
const IPV6_PREFIX_BITS: u32 = 64;

/// An address as limits count it: itself in IPv4 (also when written as IPv6), its /64 block in IPv6.
pub fn block_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            format!(
                "{:x}/{IPV6_PREFIX_BITS}",
                address.to_bits() >> (128 - IPV6_PREFIX_BITS)
            )
        }
    }
}
