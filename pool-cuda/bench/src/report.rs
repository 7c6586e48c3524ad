//! Tables for people.

use core::fmt;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use pool_cuda::Driver;

use crate::Result;
use crate::figures::{Report, Section};
use crate::rig::{Rig, size};

impl Report {
    /// A report without figures yet.
    pub(crate) fn of(rig: &Rig) -> Result<Self> {
        Ok(Self {
            device: rig.device.name().to_owned(),
            driver_version: Driver::system()?.version()?,
            total_bytes: rig.device.total_bytes(),
            sections: Vec::new(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = (self.driver_version / 1000, self.driver_version % 1000 / 10);
        let memory = size(self.total_bytes >> 20 << 20);
        write!(f, "{}, {memory}, driver for CUDA {major}.{minor}", self.device)
    }
}

/// A section as a table under its title.
pub(crate) fn table(section: &Section) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "what",
        "median",
        "p99",
        "unit",
        "operations",
        "",
    ]);
    for figure in &section.figures {
        table.add_row([
            figure.what.clone(),
            digits(figure.value),
            figure.p99.map(digits).unwrap_or_default(),
            figure.unit.to_owned(),
            figure.operations.to_string(),
            figure.remark.clone(),
        ]);
    }
    for column in [1, 2, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}: {}\n{table}", section.name, section.title)
}

/// A value with as many digits as one reads.
fn digits(value: f64) -> String {
    let behind_point = match value {
        ..10.0 => 2,
        10.0..1000.0 => 1,
        _ => 0,
    };
    format!("{value:.behind_point$}")
}
