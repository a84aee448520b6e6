use super::*;
use proptest::prelude::*;

#[test]
fn a_pair_gives_the_same_bits_alone_and_in_any_tile() {
    let width = 77;
    let value = |at: usize| ((at * 7919) % 1000) as f32 / 500.0 - 1.0;
    let rows: Vec<f32> = (0..37 * width).map(value).collect();
    let inputs: Vec<f32> = (0..7 * width).map(|at| value(at + 13)).collect();
    let mut together = vec![0.0; 37 * 7];
    products(Rows::F32(&rows), &inputs, width, &mut together);
    for row in 0..37 {
        for input in 0..7 {
            let mut alone = [0.0];
            products(
                Rows::F32(&rows[row * width..][..width]),
                &inputs[input * width..][..width],
                width,
                &mut alone,
            );
            assert_eq!(alone[0].to_bits(), together[row * 7 + input].to_bits());
        }
    }
}

proptest! {
    #[test]
    fn rows_are_added_by_their_shares(width in 1usize..200, count in 0usize..9, seed in any::<u32>()) {
        let value = |at: usize| (crate::fault::mix(at as u64 ^ u64::from(seed)) % 1000) as f32 / 500.0 - 1.0;
        let rows: Vec<f32> = (0..(count + 1) * width).map(value).collect();
        let shares: Vec<f32> = (0..count).map(|at| value(at + 1_000_000)).collect();
        let mut out = vec![0.25; width];
        weighted(&rows, &shares, &mut out);
        for (column, out) in out.iter().enumerate() {
            let sum: f64 = (0..count).map(|at| f64::from(shares[at]) * f64::from(rows[at * width + column])).sum();
            prop_assert!((f64::from(*out) - 0.25 - sum).abs() < 1e-4, "{out} {sum}");
        }
    }

    #[test]
    fn vector_and_plain_products_agree(
        width in 1usize..100,
        rows in 1usize..40,
        count in 1usize..9,
        seed in any::<u32>(),
    ) {
        let int = |at: usize| i16::try_from(crate::fault::mix(at as u64 ^ u64::from(seed)) % 255).unwrap() - 127;
        let value = |at: usize| f32::from(int(at));
        let ints: Vec<i16> = (0..rows * width).map(int).collect();
        let floats: Vec<f32> = ints.iter().map(|i| f32::from(*i)).collect();
        let bytes: Vec<i8> = ints.iter().map(|i| i8::try_from(*i).unwrap()).collect();
        let inputs: Vec<f32> = (0..count * width).map(|at| value(at + 1_000_000) / 100.0).collect();
        let mut fast = vec![0.0; rows * count];
        let mut slow = vec![0.0; rows * count];
        plain(&floats, &inputs, width, count, &mut slow);
        for weights in [Rows::F32(&floats), Rows::Int8(&bytes)] {
            products(weights, &inputs, width, &mut fast);
            for (fast, slow) in fast.iter().zip(&slow) {
                prop_assert!((fast - slow).abs() <= 0.02 + slow.abs() * 1e-4, "{fast} {slow}");
            }
        }
    }
}
