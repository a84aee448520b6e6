//! Tests of `src/figure.rs`.

use super::*;

#[test]
fn a_name_that_carries_charmings_function_mark_stays_text() {
    let name = "#*#*#*#alert(1)#*#*#*#";
    let plot = Plot::new(category_axis([name]), value_axis("ms")).bars(name, "@0", &[Some(1.0)]);
    let option = plot.finish().0;
    assert_eq!(option["series"][0]["name"], json!(name));
}

#[test]
fn values_that_span_more_than_thirty_times_have_a_logarithmic_axis() {
    let axis = |highest: f64| {
        let plot = Plot::new(value_axis("x"), value_axis("ms"));
        let plot = plot.line("a", "@0", &[(0.0, 2.0), (1.0, highest)]);
        let option = plot.finish().0;
        let y = option["yAxis"].get(0).unwrap_or(&option["yAxis"]);
        y["type"].clone()
    };
    assert_eq!((axis(59.0), axis(61.0)), (json!("value"), json!("log")));
    let small = Plot::new(value_axis("x"), value_axis("ms"));
    let small = small
        .line("a", "@0", &[(0.0, 0.2), (1.0, 900.0)])
        .finish()
        .0;
    let y = small["yAxis"].get(0).unwrap_or(&small["yAxis"]);
    assert_eq!((&y["min"], &y["startValue"]), (&json!(0.1), &json!(0.1)));
    assert_eq!(y["max"], json!(1000.0));
}

#[test]
fn a_logarithmic_axis_ends_near_its_values() {
    assert_eq!(log_ends(9.5, 1100.0), (5.0, 2000.0));
    assert_eq!(log_ends(1.0, 400.0), (0.5, 500.0));
    assert_eq!(log_ends(0.003, 0.098), (0.002, 0.2));
}

#[test]
fn a_limit_far_above_the_data_does_not_flatten_the_chart() {
    let plot = || Plot::new(value_axis("x"), value_axis("ms")).line("a", "@0", &[(0.0, 1.0)]);
    let drawn = |limit| plot().limit(limit, "SLO", 0.0).finish().0.to_string();
    assert!(drawn(3.0).contains("markLine") && !drawn(5.0).contains("markLine"));
}

#[test]
fn a_chart_says_that_it_has_intervals_only_where_some_are_drawn() {
    let of = |interval| {
        let plot = Plot::new(category_axis(["a"]), value_axis("ms"));
        Figure::new(
            "id",
            "title",
            plot.bars_within("p50", "@0", &[Some((2.0, interval))], (0, 1)),
        )
    };
    assert!(of(Some((1.0, 3.0))).within().starts_with("with 95 %"));
    assert!(
        of(None)
            .within()
            .starts_with("without confidence intervals")
    );
}

#[test]
fn series_with_long_names_that_begin_alike_have_entries_of_their_own() {
    let settings = |last: &str| format!("kv_blocks=4096,max_num_seqs=32,prefill_budget={last}");
    let endless = |last: &str| "x".repeat(80) + last;
    let names = [
        settings("512"),
        settings("2048"),
        endless("a"),
        endless("b"),
    ];
    let plot = Plot::new(category_axis(["c"]), value_axis("ms"));
    let plot = names
        .iter()
        .fold(plot, |plot, name| plot.bars(name, "@0", &[Some(1.0)]));
    // a name that comes twice is one entry
    let option = plot.bars(&names[1], "@1", &[Some(2.0)]).finish().0;
    let legend = option["legend"].get(0).unwrap_or(&option["legend"]);
    let shown: Vec<&str> = legend["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|name| name.as_str().or(name["name"].as_str()))
        .collect();
    assert_eq!(shown.len(), 4, "{shown:?}");
    assert_eq!(shown[..2], names[..2]);
    assert!(shown[3].ends_with("… (2)"), "{shown:?}");
}
