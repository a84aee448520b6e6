//! `/proc/net/dev`: bytes and trouble of the network interfaces.

/// Bytes since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    /// Received by all interfaces but the loopback.
    pub(crate) received: f64,
    /// Sent by them.
    pub(crate) sent: f64,
    /// Received over the loopback, which is what was sent over it.
    pub(crate) loopback: f64,
    /// Errors and drops, both ways, of all interfaces.
    pub(crate) trouble: f64,
}

/// Parse `/proc/net/dev`. Bridges and their members are both counted, as the kernel shows them.
pub(crate) fn parse(text: &str) -> Option<Traffic> {
    let mut traffic = Traffic::default();
    let mut seen = false;
    for line in text.lines().skip(2) {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<f64> = rest
            .split_ascii_whitespace()
            .map_while(|field| field.parse::<u64>().ok().map(|n| n as f64))
            .collect();
        let [
            received,
            _,
            rx_errors,
            rx_dropped,
            _,
            _,
            _,
            _,
            sent,
            _,
            tx_errors,
            tx_dropped,
            ..,
        ] = fields[..]
        else {
            return None;
        };
        seen = true;
        traffic.trouble += rx_errors + rx_dropped + tx_errors + tx_dropped;
        if name.trim() == "lo" {
            traffic.loopback += received;
        } else {
            traffic.received += received;
            traffic.sent += sent;
        }
    }
    seen.then_some(traffic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_kept_apart() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes ...\n    lo: 3193 29 0 0 0 0 0 0 3193 29 0 0 0 0 0 0\n  \
                    eth0:392848164 17103 1 2 0 0 0 0 1107911 10536 3 4 0 0 0 0\n";
        let read = parse(text).unwrap();
        assert!(
            (read.loopback - 3193.0).abs() < 0.5 && (read.received - 392_848_164.0).abs() < 0.5
        );
        assert!((read.sent - 1_107_911.0).abs() < 0.5 && (read.trouble - 10.0).abs() < 0.5);
        assert_eq!(parse("a\nb\n  eth0: 1 2\n"), None);
        assert_eq!(parse("a\nb\n"), None);
    }
}
