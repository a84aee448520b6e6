//! NVLink: which links are up, and what they carried together.
#![expect(
    unsafe_code,
    reason = "the link is named in a member of NVML's field value that nvml-wrapper always leaves at 0, the first link"
)]

use std::mem;

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::struct_wrappers::device::FieldValueSample;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper_sys::bindings::nvmlFieldValue_t;

use super::{KIB, figure, reason};
use crate::reading::Draft;

/// More than any card has.
const MAX_LINKS: u32 = 32;

/// A counter of a link, and what one of it is in bytes. Cards from Hopper on may have only the second of each pair.
type Counter = (u32, f64);

const COUNTERS: [(&str, [Counter; 2]); 2] = [
    (
        "nvlink_tx_bytes_total",
        [
            (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, KIB),
            (field_id::NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, 1.0),
        ],
    ),
    (
        "nvlink_rx_bytes_total",
        [
            (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, KIB),
            (field_id::NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, 1.0),
        ],
    ),
];

/// How many links are up, and the bytes of all of them.
pub(super) fn read(gpu: &Device<'_>, draft: &mut Draft<'_>) {
    let links = match active(gpu) {
        Ok(links) => links,
        Err(why) => return draft.unknown("nvlink_active_links", why),
    };
    draft.set("nvlink_active_links", links.len() as f64);
    if links.is_empty() {
        return;
    }
    for (name, counters) in COUNTERS {
        let [first, second] = counters.map(|counter| sum(gpu, counter, &links));
        // Why the usual counter is missing says more than why its substitute is.
        draft.set_or_say(name, first.or_else(|why| second.map_err(|_| why)));
    }
}

/// The numbers of the links that are up; a card without NVLink says that it does not support it.
fn active(gpu: &Device<'_>) -> Result<Vec<u32>, String> {
    let is_up = |link| gpu.link_wrapper_for(link).is_active();
    let first = is_up(0).map_err(|e| reason(&e))?;
    let others = (1..MAX_LINKS).map_while(|link| Some((link, is_up(link).ok()?)));
    Ok(std::iter::once((0, first))
        .chain(others)
        .filter_map(|(link, up)| up.then_some(link))
        .collect())
}

/// The sum of a counter over `links`, in bytes. A sum that lacks a link would be a wrong number, so one that fails fails it all.
fn sum(gpu: &Device<'_>, (field, bytes): Counter, links: &[u32]) -> Result<f64, String> {
    let values = ask(gpu, field, links).map_err(|error| reason(&error))?;
    let mut total = 0.0;
    for (link, value) in links.iter().zip(values) {
        let read = FieldValueSample::try_from(value).and_then(|sample| sample.value);
        let value = read.map_err(|error| format!("link {link}: {}", reason(&error)))?;
        total += bytes * figure(&value);
    }
    Ok(total)
}

/// One call for all links.
fn ask(gpu: &Device<'_>, field: u32, links: &[u32]) -> Result<Vec<nvmlFieldValue_t>, NvmlError> {
    let call = gpu.nvml().lib().nvmlDeviceGetFieldValues.as_ref();
    let call = call.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
    let mut values: Vec<nvmlFieldValue_t> = links
        .iter()
        .map(|&link| {
            // SAFETY: integers and a union of numbers: all zeroes is a value of each.
            let mut value: nvmlFieldValue_t = unsafe { mem::zeroed() };
            value.fieldId = field;
            value.scopeId = link;
            value
        })
        .collect();
    let count = i32::try_from(values.len()).map_err(|_| NvmlError::InvalidArg)?;
    // SAFETY: the handle is of this library and lives as long as `gpu`; `values` has `count` elements, which NVML writes to
    // before it returns and keeps no pointer to.
    nvml_try(unsafe { call(gpu.handle(), count, values.as_mut_ptr()) })?;
    Ok(values)
}
