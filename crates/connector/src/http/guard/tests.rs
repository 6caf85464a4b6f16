use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::http::SystemLookup;

fn guard(allow: &[&str], own: &[&str]) -> Guard {
    let allow = AllowList::parse(allow.iter().copied()).expect("entries");
    let own = own.iter().map(|text| text.parse().expect("an address")).collect();
    Guard::new(allow, own, Arc::new(SystemLookup))
}

fn enter(guard: &Guard, url: &str) -> Result<(), BlockedAddress> {
    guard.enter(&Url::parse(url).expect("a URL")).map(|_| ())
}

#[test]
fn every_non_public_range_is_blocked() {
    let addresses = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:8.8.8.8]",
        "[::8.8.8.8]",
        "[64:ff9b::808:808]",
        "[64:ff9b:1::1]",
        "[100::1]",
        "[2001::1]",
        "[2001:0:53aa:64c::1]",
        "[2001:db8::1]",
        "[2002:7f00:1::1]",
        "[3fff::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[4000::1]",
        "[e000::1]",
    ];
    let guard = guard(&[], &[]);
    for address in addresses {
        let result = enter(&guard, &format!("http://{address}:8080/"));
        assert!(matches!(result, Err(BlockedAddress::Private { .. })), "{address}: {result:?}");
    }
}

#[test]
fn public_addresses_pass() {
    let addresses = [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.1",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "[2606:4700::1111]",
        "[2a00:1450::1]",
        "[2003::1]",
    ];
    let guard = guard(&[], &[]);
    for address in addresses {
        assert_eq!(enter(&guard, &format!("https://{address}/")), Ok(()), "{address}");
    }
}

#[test]
fn numeric_spellings_of_an_address_are_normalized() {
    let spellings = [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7F.0.0.1",
        "017700000001",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "①②⑦.0.0.1",
        "127.0.0.1.",
        "[0:0:0:0:0:ffff:7f00:1]",
        "[::127.0.0.1]",
    ];
    let guard = guard(&[], &[]);
    for spelling in spellings {
        let result = enter(&guard, &format!("http://{spelling}/"));
        assert!(matches!(result, Err(BlockedAddress::Private { .. })), "{spelling}: {result:?}");
    }
}

#[test]
fn only_http_urls_without_userinfo_are_allowed() {
    let guard = guard(&["127.0.0.1"], &[]);
    assert_eq!(enter(&guard, "ftp://127.0.0.1/"), Err(BlockedAddress::Scheme("ftp".to_owned())));
    assert_eq!(enter(&guard, "file:///etc/passwd"), Err(BlockedAddress::Scheme("file".to_owned())));
    assert_eq!(enter(&guard, "data:text/plain,x"), Err(BlockedAddress::Scheme("data".to_owned())));
    assert_eq!(enter(&guard, "http://u:p@127.0.0.1/"), Err(BlockedAddress::UserInfo));
}

#[test]
fn the_allow_list_opens_addresses_networks_and_names() {
    let guard = guard(&["127.0.0.1", "10.0.0.0/8", "fd00::/8", "wiki.internal", "*.Corp.example."], &[]);
    for url in ["http://127.0.0.1/", "http://10.20.30.40/", "http://[fd00:ec2::254]/"] {
        assert_eq!(enter(&guard, url), Ok(()), "{url}");
    }
    assert!(enter(&guard, "http://127.0.0.2/").is_err());
    assert!(enter(&guard, "http://11.0.0.0.").is_ok());
    let private = "192.168.1.1".parse().expect("an address");
    for name in ["wiki.internal", "WIKI.internal.", "a.corp.example", "a.b.corp.example"] {
        assert_eq!(guard.check_resolved(name, private), Ok(()), "{name}");
    }
    for name in ["evil-wiki.internal", "x.wiki.internal", "corp.example", "corp.example.evil"] {
        assert!(guard.check_resolved(name, private).is_err(), "{name}");
    }
}

#[test]
fn allowing_an_address_does_not_allow_its_ipv6_forms() {
    let guard = guard(&["127.0.0.1", "0.0.0.0/0"], &[]);
    assert!(enter(&guard, "http://[::ffff:127.0.0.1]/").is_err());
    assert!(enter(&guard, "http://[::1]/").is_err());
}

#[test]
fn an_allow_list_entry_that_can_never_match_is_rejected() {
    for entry in ["10.0.0.0/33", "1.2.3.4.5", "http://x", "a b", "*", "10.0.0", "::1/129", "host:80", "x/8"] {
        let error = AllowList::parse([entry]).expect_err(entry);
        assert!(error.to_string().contains(entry), "{entry}");
    }
    assert!(AllowList::parse(["", " "]).is_ok());
}

#[test]
fn own_listeners_stay_blocked_whatever_is_allowed() {
    let guard = guard(&["127.0.0.1", "0.0.0.0/0", "::/0", "localhost"], &["127.0.0.1:7070", "[::1]:5432"]);
    assert_eq!(enter(&guard, "http://127.0.0.1:7071/"), Ok(()));
    for url in [
        "http://127.0.0.1:7070/",
        "http://0.0.0.0:7070/",
        "http://[::ffff:127.0.0.1]:7070/",
        "http://[::1]:5432/",
    ] {
        assert!(matches!(enter(&guard, url), Err(BlockedAddress::Own { .. })), "{url}");
    }
}

#[test]
fn a_wildcard_listener_is_blocked_on_every_local_address() {
    let guard = guard(&["0.0.0.0/0"], &["0.0.0.0:7070"]);
    for url in ["http://127.0.0.1:7070/", "http://127.8.8.8:7070/", "http://0.0.0.0:7070/"] {
        assert!(matches!(enter(&guard, url), Err(BlockedAddress::Own { .. })), "{url}");
    }
    assert_eq!(enter(&guard, "http://127.0.0.1:8080/"), Ok(()));
}

#[test]
fn a_name_resolving_to_an_own_listener_is_blocked_on_that_port_only() {
    let guard = guard(&["localhost"], &["127.0.0.1:7070"]);
    let loopback = "127.0.0.1".parse().expect("an address");
    let url = |port: u16| Url::parse(&format!("http://localhost:{port}/")).expect("a URL");
    assert!(
        guard.check_resolved("localhost", loopback).is_err(),
        "nothing in flight: every port may be meant"
    );
    let other = guard.enter(&url(8080)).expect("a name passes until it is resolved");
    assert_eq!(guard.check_resolved("localhost", loopback), Ok(()));
    let ours = guard.enter(&url(7070)).expect("a name passes until it is resolved");
    assert!(matches!(guard.check_resolved("localhost", loopback), Err(BlockedAddress::Own { .. })));
    drop(ours);
    assert_eq!(guard.check_resolved("localhost", loopback), Ok(()));
    drop(other);
    assert!(guard.in_flight.lock().expect("not poisoned").is_empty());
}

proptest! {
    #[test]
    fn an_ipv4_address_is_checked_alike_in_every_spelling(bits: u32) {
        let guard = guard(&[], &[]);
        let plain = enter(&guard, &format!("http://{}/", Ipv4Addr::from_bits(bits)));
        let [a, b, c, d] = bits.to_be_bytes();
        for spelling in [format!("{bits}"), format!("{bits:#x}"), format!("0{a:o}.0x{b:x}.{c}.{d}")] {
            prop_assert_eq!(enter(&guard, &format!("http://{spelling}/")), plain.clone());
        }
    }

    #[test]
    fn a_network_contains_exactly_its_addresses(bits: u32, prefix in 0_u8..=32) {
        let text = format!("{}/{prefix}", Ipv4Addr::from_bits(bits));
        let network = Network::parse(&text).expect("a network");
        prop_assert!(network.contains(IpAddr::V4(Ipv4Addr::from_bits(bits))));
        if prefix > 0 {
            let flipped = bits ^ (1 << (32 - u32::from(prefix)));
            prop_assert!(!network.contains(IpAddr::V4(Ipv4Addr::from_bits(flipped))));
        }
    }
}
