use super::*;

#[test]
fn nothing_measured_has_no_distribution() {
    assert_eq!(summarise(&[], Unit::Ns), None);
    assert_eq!(summarise_clusters::<Vec<f64>>(&[vec![]], Unit::Ns), None);
}

#[test]
fn one_value_has_a_distribution_without_spread_or_intervals() {
    let one = summarise(&[5.0], Unit::Ns).unwrap();
    assert_eq!(
        (one.n, one.sd, one.cov, one.mean_interval),
        (1, None, None, None)
    );
    assert!(
        one.quantiles
            .iter()
            .all(|q| q.few_samples && q.interval.is_none())
    );
}

#[test]
fn gaps_that_belong_to_few_requests_have_wider_intervals_than_free_ones() {
    let clusters: Vec<Vec<f64>> = (0..30)
        .map(|r| {
            (0..100)
                .map(|i| 10.0 + f64::from(r * 7 % 30) + f64::from(i % 3))
                .collect()
        })
        .collect();
    let free: Vec<f64> = (0..100)
        .flat_map(|i| clusters.iter().map(move |c| c[i]))
        .collect();
    let width = |d: &Distribution| d.mean_interval.map(|i| i.high - i.low).unwrap();
    let (clustered, scattered) = (
        summarise_clusters(&clusters, Unit::Ns).unwrap(),
        summarise(&free, Unit::Ns).unwrap(),
    );
    assert!((clustered.mean - scattered.mean).abs() < 1e-9);
    assert!(width(&clustered) > 3.0 * width(&scattered));
}
