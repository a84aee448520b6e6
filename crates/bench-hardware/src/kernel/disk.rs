//! `/proc/diskstats`: what the whole disks did. Partitions, loop devices, RAM disks and mapped devices would count twice.

/// Since boot, over all disks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DiskTotals {
    /// Bytes read.
    pub(crate) read: f64,
    /// Bytes written.
    pub(crate) written: f64,
    /// Seconds in which a disk was busy, summed over disks.
    pub(crate) busy: f64,
}

/// The kernel counts sectors of 512 bytes whatever the disk's own are.
const SECTOR: f64 = 512.0;

/// Parse `/proc/diskstats`; `is_whole` says whether a name is a disk and not a part of one.
pub(crate) fn parse(text: &str, is_whole: impl Fn(&str) -> bool) -> Option<DiskTotals> {
    let mut totals = DiskTotals::default();
    let mut seen = false;
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace().skip(2);
        let name = fields.next()?;
        let numbers: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let [_, _, read, _, _, _, written, _, _, busy_ms, ..] = numbers[..] else {
            return None;
        };
        if is_virtual(name) || !is_whole(name) {
            continue;
        }
        seen = true;
        totals.read += read as f64 * SECTOR;
        totals.written += written as f64 * SECTOR;
        totals.busy += busy_ms as f64 / 1e3;
    }
    seen.then_some(totals)
}

fn is_virtual(name: &str) -> bool {
    ["loop", "ram", "zram", "dm-", "md", "nbd"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_disks_are_summed_and_the_rest_left_out() {
        let text = " 7 0 loop0 1 0 8 0 0 0 0 0 0 0 0\n 254 0 vda 81532 26382 1000 26685 10031 59934 2000 11836 0 8096 38874\n \
                    254 1 vda1 5 0 900 1 0 0 1900 0 0 70 1\n";
        let totals = parse(text, |name| name == "vda").unwrap();
        assert!(
            (totals.read - 512_000.0).abs() < 0.5 && (totals.written - 1_024_000.0).abs() < 0.5
        );
        assert!((totals.busy - 8.096).abs() < 1e-9);
        assert_eq!(parse(text, |_| false), None);
    }
}
