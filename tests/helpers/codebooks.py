"""Small codebooks of each kind, as texts."""

import json

REDCAP_HEADER = (
    '"Variable / Field Name","Form Name","Section Header","Field Type","Field Label",'
    '"Choices, Calculations, OR Slider Labels","Field Note","Text Validation Type OR Show Slider Number",'
    '"Text Validation Min","Text Validation Max",Identifier?,"Branching Logic (Show field only if...)",'
    '"Required Field?"\n'
)
REDCAP = (
    REDCAP_HEADER
    + """\
record_id,base,,text,Record ID,,,,,,,,
full_name,base,,text,Name,,,,,,y,,
age,base,,text,Age,,,integer,18,99,,,y
born,base,,text,Born,,,date_dmy,1900-01-01,today,,,
smoker,base,,radio,Do you smoke?,"0, No | 1, Yes | 9, Don't know",,,,,,,
cigs,base,,text,Cigarettes per day,,,integer,0,100,,"[smoker] = '1'",
meds,base,,checkbox,Medication,"1, Aspirin | 2, Statin | -9, Other",,,,,,,
dose,base,,text,Dose,,,number_1dp,0,500,,"[meds(1)] = '1' and ([age] >= 30 or [smoker] = '1')",
preg,base,,yesno,Pregnant,,,,,,,"[event][sex] = '2'",
bmi,base,,calc,BMI,[w]/[h],,,,,,,
mood,base,,slider,Mood,,,,,,,,
story,base,,notes,Tell us,,,,,,,,
"""
)

TABLE_SCHEMA = {
    "fields": [
        {"name": "id", "type": "integer", "constraints": {"unique": True}},
        {
            "name": "sex",
            "type": "string",
            "categories": [{"value": "f", "label": "Female"}, {"value": "m", "label": "Male"}],
            "missingValues": ["", {"value": "-9", "label": "Refused"}, {"value": "-7", "label": "Not applicable"}],
        },
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 110, "required": True}},
        {"name": "school", "type": "integer", "constraints": {"enum": [1, 2, 3]}, "categoriesOrdered": True},
        {"name": "x", "type": "number", "description": "share in %"},
        {
            "name": "seen",
            "type": "date",
            "format": "%d.%m.%Y",
            "constraints": {"minimum": "01.02.2000", "maximum": "31.12.2020"},
        },
        {"name": "smoker", "type": "boolean", "trueValues": ["J"], "falseValues": ["N"]},
        {"name": "remarks", "type": "string"},
    ],
    "missingValues": ["", "NA"],
}
PACKAGE = json.dumps({"name": "p", "resources": [{"name": "people", "path": "p.csv", "schema": TABLE_SCHEMA}]})

DDI = """\
<?xml version="1.0"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
<stdyDscr><citation><titlStmt><titl>A survey</titl></titlStmt></citation></stdyDscr>
<dataDscr>
<var ID="V1" name="sex" intrvl="discrete" nature="nominal"><labl>Sex</labl>
<qstn><qstnLit>What is your sex?</qstnLit></qstn>
<catgry><catValu>1</catValu><labl>Male</labl><catStat type="freq">17</catStat></catgry>
<catgry><catValu>2</catValu><labl>Female</labl></catgry>
<catgry missing="Y"><catValu>9</catValu><labl>Refused</labl></catgry></var>
<var ID="V2" name="age" intrvl="discrete"><labl>Age</labl><invalrng><range min="97" max="99"/></invalrng>
<valrng><range min="0" max="96"/></valrng><varFormat type="numeric"/></var>
<var ID="V3" name="income" intrvl="contin" dcml="2"><labl>Income</labl><varFormat type="numeric"/></var>
<var ID="V4" name="town"><labl>Town</labl><varFormat type="character"/></var>
<var ID="V5" name="seen"><labl>Day</labl><valrng><range min="2000-01-01" max="2010-12-31"/></valrng>
<varFormat type="character" category="date"/></var>
</dataDscr></codeBook>
"""

CSVW = json.dumps(
    {
        "@context": "http://www.w3.org/ns/csvw",
        "url": "people.csv",
        "dialect": {"delimiter": ";"},
        "tableSchema": {
            "columns": [
                {"name": "sex", "datatype": {"base": "string", "format": "f|m"}, "null": ["", "NA"]},
                {"name": "age", "titles": "age", "datatype": {"base": "integer", "minimum": 0, "maximum": 120}},
                {"name": "smoker", "datatype": {"base": "boolean", "format": "Y|N"}},
                {"name": "seen", "datatype": {"base": "date", "format": "dd.MM.yyyy"}, "required": True},
                {
                    "name": "visits",
                    "datatype": "nonNegativeInteger",
                    "dc:description": "Days with pain in the past 30 days",
                },
            ]
        },
    }
)

CODES = """\
column,code,label,description,missing,type,min,max
sex,1,Male,Sex of the respondent,,,,
,2,Female,,,,,
,9,No answer,,yes,,,
rating,,,How satisfied are you (1-7)?,,integer,,
age,,,Age in years,,integer,0,120
pain,0,Not at all,Pain,,,,
,10,Extremely,,,,,
"""

EXAMPLES = {
    "redcap.csv": REDCAP,
    "package.json": PACKAGE,
    "ddi.xml": DDI,
    "csvw.json": CSVW,
    "codes.csv": CODES,
}
