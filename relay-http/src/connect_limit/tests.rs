//! The limit on a paused clock (TR-11).

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use relay_model::limits::CONNECT_SOURCES;
use tokio::time::advance;

use super::*;

const NANOS: u64 = 1_000_000_000;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Counts a connection under the default limits.
fn admit(limit: &ConnectLimit, address: IpAddr) -> Result<(), TooOften> {
    limit.admit(address, &Limits::default())
}

/// How many connections are let in at this instant.
fn admitted(limit: &ConnectLimit, address: IpAddr) -> usize {
    admitted_under(limit, address, &Limits::default())
}

fn admitted_under(limit: &ConnectLimit, address: IpAddr, limits: &Limits) -> usize {
    (0..1_000)
        .take_while(|_| limit.admit(address, limits).is_ok())
        .count()
}

/// How many addresses are remembered.
fn known(limit: &ConnectLimit) -> usize {
    limit.0.load().limiter.len()
}

/// TR-11: 100 at once, five a second after that, and never more than 100 again.
#[tokio::test(start_paused = true)]
async fn burst_and_refill() {
    let limit = ConnectLimit::new(&Limits::default());
    let one = address("192.0.2.1");
    assert_eq!(admitted(&limit, one), 100);
    assert_eq!(
        admit(&limit, one),
        Err(TooOften {
            wait: Duration::from_millis(200)
        })
    );
    advance(Duration::from_millis(150)).await;
    assert_eq!(
        admit(&limit, one),
        Err(TooOften {
            wait: Duration::from_millis(50)
        })
    );
    advance(Duration::from_millis(50)).await;
    assert_eq!(admitted(&limit, one), 1);
    advance(Duration::from_secs(3)).await;
    assert_eq!(admitted(&limit, one), 15);
    advance(Duration::from_secs(3_600)).await;
    assert_eq!(admitted(&limit, one), 100);
}

/// TR-11: an address has its own count, an IPv6 /64 has one, and so has an IPv4 address in both
/// spellings.
#[tokio::test(start_paused = true)]
async fn who_counts_as_one() {
    for (first, second, one) in [
        ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", false),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", true),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ("2001:db8:0:1::1", "2001:db8::1", false),
    ] {
        let limit = ConnectLimit::new(&Limits::default());
        assert_eq!(admitted(&limit, address(first)), 100);
        let left = admitted(&limit, address(second));
        assert_eq!(left, if one { 0 } else { 100 }, "{first} {second}");
    }
}

/// TR-11: addresses are forgotten when they are as good as new, not before, and without a limit that
/// forgives anything.
#[tokio::test(start_paused = true)]
async fn addresses_are_forgotten() {
    let limit = ConnectLimit::new(&Limits::default());
    let busy = address("192.0.2.1");
    assert_eq!(admitted(&limit, busy), 100);
    for low in 0..5_000u32 {
        admit(&limit, Ipv4Addr::from(0x0a00_0000 + low).into()).unwrap();
    }
    assert_eq!(known(&limit), 5_001);
    advance(CONNECT_SWEEP_INTERVAL).await;
    assert_eq!(admitted(&limit, busy), 5);
    assert_eq!(known(&limit), 1);
    advance(Duration::from_secs(60)).await;
    admit(&limit, address("192.0.2.2")).unwrap();
    assert_eq!(known(&limit), 1, "the busy one is forgotten too");
}

/// TR-11: an attacker with a network of networks fills no more than its share of memory, those who
/// are known stay limited, and others are let in meanwhile.
#[tokio::test(start_paused = true)]
async fn sprayed_addresses_are_bounded() {
    let limit = ConnectLimit::new(&Limits::default());
    let busy = address("192.0.2.1");
    assert_eq!(admitted(&limit, busy), 100);
    for network in 0..CONNECT_SOURCES as u128 + 10_000 {
        let sprayed = Ipv6Addr::from_bits((0x2001_0db8 << 96) + (network << 64));
        admit(&limit, sprayed.into()).unwrap();
    }
    assert_eq!(known(&limit), CONNECT_SOURCES);
    assert_eq!(admitted(&limit, busy), 0);
    admit(&limit, address("192.0.2.2")).unwrap();
    advance(CONNECT_SWEEP_INTERVAL).await;
    admit(&limit, address("192.0.2.2")).unwrap();
    assert_eq!(known(&limit), 2);
}

/// OP-4: other limits hold for the next connection, and counting begins anew.
#[tokio::test(start_paused = true)]
async fn limits_can_change() {
    let limit = ConnectLimit::new(&Limits::default());
    let one = address("192.0.2.1");
    assert_eq!(admitted(&limit, one), 100);
    let fewer = Limits {
        connect_burst: 3,
        connects_per_second: 1,
        ..Limits::default()
    };
    assert_eq!(admitted_under(&limit, one, &fewer), 3);
    assert_eq!(
        admitted_under(&limit, one, &fewer),
        0,
        "the same go on counting"
    );
    advance(Duration::from_secs(2)).await;
    assert_eq!(admitted_under(&limit, one, &fewer), 2);
}

proptest! {
    /// TR-11: never more than burst + rate x time, whatever the rhythm and however often addresses
    /// are forgotten in between, and no refill is lost.
    #[test]
    fn never_more_than_the_rate(
        burst in 1usize..50,
        per_second in 1usize..50,
        steps in prop::collection::vec(0u64..800, 1..60),
    ) {
        let limits = Limits {
            connect_burst: burst,
            connects_per_second: per_second,
            ..Limits::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        // The same in whole nanoseconds of credit.
        let each = NANOS / per_second as u64;
        let full = each * burst as u64;
        let mut credit = full;
        runtime.block_on(async {
            let limit = ConnectLimit::new(&limits);
            let one = address("192.0.2.1");
            for millis in steps {
                advance(Duration::from_millis(millis)).await;
                credit = full.min(credit + millis * 1_000_000);
                prop_assert_eq!(admitted_under(&limit, one, &limits) as u64, credit / each);
                credit %= each;
                // Others come too, so that there is something to forget.
                let _ = limit.admit(address("192.0.2.2"), &limits);
            }
            Ok(())
        })?;
    }
}
