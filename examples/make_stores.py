"""Write stores.csv and stores-new.csv: made-up offers in eight cities, and whether they were bought.

What sells depends on the item everywhere in much the same way, and a little on the city, so a small city has something
to learn from the others. Run it in this folder: ``python make_stores.py``.
"""

import csv
import datetime as dt
import math
import random

CITIES = {"Dublin": 5, "Kraków": 9, "Lisbon": 14, "Malmö": 4, "Oslo": 8, "Porto": 3, "Turin": 10, "Vienna": 12}
DEPARTMENTS = ("garden", "kitchen", "toys", "books", "sports", "light")
EVENTS, NEW_EVENTS, ITEMS = 12_000, 1_200, 240
START = dt.datetime(2025, 3, 1, 8)


def main() -> None:
    """Draw all events and write them to two files, the newest to the second one."""
    draw = random.Random(7)
    items = [
        (f"SKU-{number:04}", draw.choice(DEPARTMENTS), draw.gauss(0, 1.3), round(math.exp(draw.gauss(3, 0.7)), 2))
        for number in draw.sample(range(1, 2000), ITEMS)
    ]
    popularity = [1 / (1 + rank) ** 0.7 for rank in range(ITEMS)]
    taste = {city: {d: draw.gauss(0, 0.4) for d in DEPARTMENTS} for city in CITIES}
    rows, moment = [], START
    for _ in range(EVENTS + NEW_EVENTS):
        moment += dt.timedelta(minutes=draw.expovariate(1 / 12))
        city = draw.choices(list(CITIES), list(CITIES.values()))[0]
        item, department, appeal, price = draw.choices(items, popularity)[0]
        discount = draw.choice((0, 0, 0, 10, 20, 30))
        channel = draw.choice(("web", "store"))
        logit = appeal + taste[city][department] + 0.03 * discount - 0.3 + 0.2 * (channel == "web")
        bought = int(draw.random() < 1 / (1 + math.exp(-logit)))
        rows.append((f"{moment:%Y-%m-%d %H:%M}", city, item, department, channel, price, discount, bought))
    for name, part in (("stores.csv", rows[:EVENTS]), ("stores-new.csv", rows[EVENTS:])):
        with open(name, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("time", "city", "item", "department", "channel", "price", "discount", "bought"))
            writer.writerows(part)


if __name__ == "__main__":
    main()
