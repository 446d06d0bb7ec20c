#!/usr/bin/env python3
"""Finds the period of a variable star in a noisy light curve, and draws it.

    light_curve [--period DAYS] [--output DIR]

The light curve is made up: 200 nights out of two years, magnitudes with errors. Lomb and Scargle's periodogram
(astropy.timeseries) has to find the period again. DIR gets light_curve.csv and light_curve.png.
"""
import argparse
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from astropy import units as u
from astropy.time import Time
from astropy.timeseries import LombScargle


def observe(period, rng):
    """200 nights of a star of magnitude 12 that varies by 0.3."""
    nights = np.sort(rng.uniform(0, 730, 200))
    error = rng.uniform(0.02, 0.05, nights.size)
    magnitude = 12 + 0.3 * np.sin(2 * np.pi * nights / period) + error * rng.standard_normal(nights.size)
    date = (Time("2025-01-01T00:00:00") + nights * u.day).isot
    return pd.DataFrame({"date": date, "day": nights, "magnitude": magnitude, "error": error})


def find_period(curve):
    search = LombScargle(curve.day.to_numpy() * u.day, curve.magnitude.to_numpy() * u.mag, curve.error.to_numpy() * u.mag)
    frequency, power = search.autopower(minimum_frequency=1 / (100 * u.day), maximum_frequency=2 / u.day)
    return (1 / frequency[np.argmax(power)]).to_value(u.day)


def draw(curve, period, path):
    plt.errorbar(curve.day % period / period, curve.magnitude, curve.error, fmt=".")
    plt.gca().invert_yaxis()
    plt.xlabel("phase")
    plt.ylabel("magnitude")
    plt.title(f"period {period:.3f} days")
    plt.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--period", type=float, default=5.366, help="of the star, in days (%(default)s, Delta Cephei)")
    parser.add_argument("--output", default=".", help="directory for the results")
    args = parser.parse_args()

    curve = observe(args.period, np.random.default_rng(1))
    period = find_period(curve)
    curve.to_csv(os.path.join(args.output, "light_curve.csv"), index=False)
    draw(curve, period, os.path.join(args.output, "light_curve.png"))
    print(f"period {period:.3f} days, {args.period:.3f} were put in")


if __name__ == "__main__":
    main()
