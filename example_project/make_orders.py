#!/usr/bin/env python
"""Write orders.csv: 500 invented orders, by rule and without chance, so the file can be made again.

Usage: python make_orders.py [FILE]
"""

import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

COLUMNS = ("number", "placed_at", "customer", "email", "amount", "currency", "items", "note")
FIRST_NUMBER = 1001
GOOD_LOOKING = 499  # and the duplicate makes 500
OPENING = datetime(2025, 3, 3, 8, 0, tzinfo=UTC)


# How the same amount is written in different places. Cents come in; text goes out.
def grouped(cents: int, mark: str, point: str) -> str:
    return f"{cents // 100:,}".replace(",", mark) + f"{point}{cents % 100:02}"


def english(cents: int) -> str:
    return grouped(cents, ",", ".")


def german(cents: int) -> str:
    return grouped(cents, ".", ",")


def french(cents: int) -> str:
    return grouped(cents, "\N{NARROW NO-BREAK SPACE}", ",")


def polish(cents: int) -> str:
    return grouped(cents, "\N{NO-BREAK SPACE}", ",")


def swiss(cents: int) -> str:
    return grouped(cents, "\N{RIGHT SINGLE QUOTATION MARK}", ".")


def ungrouped(cents: int) -> str:
    return grouped(cents, "", ".")


def ukrainian(cents: int) -> str:
    return grouped(cents, " ", ",")


def indian(cents: int) -> str:
    rupees = str(cents * 10 // 100)
    head, tail = rupees[:-3], rupees[-3:]
    pairs = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)]
    return ",".join([*reversed(pairs), tail]) + f".{cents % 100:02}"


def arabic(cents: int) -> str:
    text = grouped(cents, "٬", "٫")
    return text.translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩"))


def yen(cents: int) -> str:
    return f"{cents // 5:,}"


def wide_yen(cents: int) -> str:
    return yen(cents).translate(str.maketrans("0123456789,", "０１２３４５６７８９，"))


def won(cents: int) -> str:
    return f"{cents // 100 * 1000 + 500:,}"


@dataclass(frozen=True)
class Region:
    """Names are "native|for the e-mail address"; five of the first and seven of the second make 35 people."""

    currency: str
    amounts: tuple[Callable[[int], str], ...]
    given: str
    family: str
    join: str = "{given} {family}"


FAMILY_FIRST = "{family}{given}"
REGIONS = (
    Region(
        "EUR",
        (french,),
        "Zoë|zoe Loïc|loic Maëlle|maelle Étienne|etienne Anaïs|anais",
        "Brécharde|brecharde Fénelonne|fenelonne Garançon|garancon d’Aubrelle|daubrelle "
        "Goëlliste|goelliste Pommérac|pommerac Cœurval|coeurval",
    ),
    Region(
        "EUR",
        (german, ungrouped),
        "Jürgen|juergen Käthe|kaethe Björn|bjoern Änne|aenne Götz|goetz",
        "Müßighoff|muessighoff Grünbichl|gruenbichl Weißdornick|weissdornick Öhlschlag|oehlschlag "
        "Kräutling|kraeutling Brückstein|brueckstein Spätzmann|spaetzmann",
    ),
    Region(
        "CHF",
        (swiss, english),
        "Reto|reto Ursina|ursina Flurin|flurin Séverine|severine Ladina|ladina",
        "Bergünthal|bergunthal Caflischaun|caflischaun Rhätzli|rhaetzli Tschuppmann|tschuppmann "
        "Zgragglin|zgragglin Bühlibach|buehlibach Valsérine|valserine",
    ),
    Region(
        "EUR",
        (german,),
        "Íñigo|inigo Begoña|begona João|joao Conceição|conceicao Àngels|angels",
        "Núñezal|nunezal Peñalarca|penalarca Guimarãesto|guimaraesto Corbalán|corbalan "
        "Açucenal|acucenal Ibarrútegi|ibarrutegi Muñizal|munizal",
    ),
    Region(
        "PLN",
        (polish, ukrainian),
        "Łucja|lucja Żaneta|zaneta Zdzisław|zdzislaw Świętosława|swietoslawa Grażyna|grazyna",
        "Brzęczkoń|brzeczkon Źdźbłosz|zdzblosz Jarzębin|jarzebin Wąwozik|wawozik "
        "Śliwkorz|sliwkorz Łąkotka|lakotka Pszczółecz|pszczolecz",
    ),
    Region(
        "TRY",
        (german,),
        "Çağla|cagla Şükrü|sukru İlknur|ilknur Gökçe|gokce Işıl|isil",
        "Bağlıçay|baglicay Gümüşdere|gumusdere Kızılağaçlı|kizilagacli Özçınaroğlu|ozcinaroglu "
        "Şimşekdağ|simsekdag Yıldıztepe|yildiztepe Ünlüırmak|unluirmak",
    ),
    Region(
        "UAH",
        (ukrainian, polish),
        "Олеся|olesia Мирослав|myroslav Зоряна|zoriana Їлья|yilia Євгенія|yevheniia",
        "Вербівчук|verbivchuk Ґанжуленко|ganzhulenko Щедринець|shchedrynets Житнюченко|zhytniuchenko "
        "Яворинська|yavorynska Калинюк|kalyniuk Дзвонарчук|dzvonarchuk",
    ),
    Region(
        "EUR",
        (german,),
        "Ελπίδα|elpida Θεόφιλος|theofilos Ψυχή|psychi Ξένια|xenia Άγγελος|angelos",
        "Λεμονάκης|lemonakis Θαλασσινίδη|thalassinidi Ωραιόπετρος|oraiopetros Χρυσοβέργη|chrysovergi "
        "Ξυλοπόδης|xylopodis Ανεμίδου|anemidou Γεφυράκη|gefyraki",
    ),
    Region(
        "AED",
        (arabic, english),
        "ليلى|layla يوسف|yusuf نور|nour سلمى|salma طارق|tariq",
        "الزيتوني|alzaytuni النخلاوي|alnakhlawi البستانجي|albustanji الياسميني|alyasmini "
        "الرمّاني|alrummani الصنوبري|alsanawbari الكرميّ|alkarmi",
    ),
    Region(
        "ILS",
        (english,),
        "נועה|noa אורי|uri תמר|tamar איתי|itai שירה|shira",
        "בן־ברוש|benbrosh אלונית|alonit הר־שקד|harshaked כוכבן|kochavan גפנית|gafnit רימונאי|rimonai מעיינות|maayanot",
    ),
    Region(
        "INR",
        (indian,),
        "आरती|aarti विक्रम|vikram श्रुति|shruti ज्ञानेश|gyanesh मीनाक्षी|meenakshi",
        "चंदनवाल|chandanwal कमलपुरे|kamalpure नदियार|nadiyar वृक्षकर|vrikshkar "
        "सूर्यवनी|suryavani पर्वतकर|parvatkar मेघलानी|meghlani",
    ),
    Region(
        "CNY",
        (english, ungrouped),
        "晓岚|xiaolan 雨桐|yutong 思远|siyuan 静姝|jingshu 𠮷祥|jixiang",
        "松|song 柏|bai 竹|zhu 溪|xi 云|yun 葛|ge 苗|miao",
        FAMILY_FIRST,
    ),
    Region(
        "JPY",
        (yen, wide_yen, yen),
        "さくら|sakura 蓮太|renta ひなた|hinata 結衣子|yuiko カオル|kaoru",
        "竹之森|takenomori 雪ヶ谷川|yukigayagawa 髙松原|takamatsubara 小鳥沢|kotorizawa "
        "藤ノ浦|fujinoura 梅ヶ丘|umegaoka 霧島田|kirishimada",
        FAMILY_FIRST,
    ),
    Region(
        "KRW",
        (won,),
        "하늘|haneul 지우|jiwoo 서연|seoyeon 도윤|doyun 보람|boram",
        "솔|sol 단풍|danpung 은행|eunhaeng 버들|beodeul 남궁|namgung 여울|yeoul 제비|jebi",
        FAMILY_FIRST,
    ),
    Region(
        "GBP",
        (english, ungrouped),
        "Wren|wren Siân|sian Áine|aine Rhys|rhys Niamh|niamh",
        "O'Thistle|othistle Larkspur-Bell|larkspurbell Fennimoor|fennimoor Quillbrook|quillbrook "
        "Ap-Rowan|aprowan Mossington|mossington Tarnby|tarnby",
    ),
)

ITEMS = (
    "Teapot, blue", "Bread knife", "Wool blanket", "Oak stool", "Lemon squeezer", "Linen towel",
    "Copper pan 24 cm", "Desk lamp", "Bird feeder", "Notebook A5", "Salt & pepper set",
)  # fmt: skip

NOTES = {
    7: "leave it with the neighbour",
    13: "gift wrap, please",
    29: "The bell is broken.\nCall first: we are in the garden.",
    31: 'Bitte "Frohe Ostern" auf die Karte',
    37: "🎁 for mum, no invoice in the box",
    41: "сдачи не нужно",
    43: "門の前に置いてください",
}

# The real world. Each entry overwrites cells of one order.
DIRT: dict[int, dict[str, str]] = {
    1030: {"customer": "Fish & Chips <Kiosk>"},
    1033: {"note": "flaky gateway"},
    1042: {"amount": ""},
    1060: {"note": "slow: needs manual VAT look-up"},
    1067: {"email": "yevheniia.yavorynska.example.com"},
    1075: {"customer": "🌻 Garden Club 🐝"},
    1091: {"amount": "1O8,50"},
    1092: {"currency": "EUX"},
    1095: {"note": "flaky gateway"},
    1123: {"note": "crash"},
    1156: {"amount": "-24,90"},
    1160: {"note": "flaky gateway"},
    1222: {"note": "flaky gateway"},
    1238: {"amount": "12,800.50"},
    1287: {"note": "flaky gateway"},
    1315: {"email": "  wren.tarnby@example.org ", "currency": "gbp"},
    1333: {"items": " "},
    1350: {"note": "flaky gateway"},
    1390: {"placed_at": "2025-02-30T10:15:00+00:00"},
    1436: {"email": "anais@fenelonne@example.org"},
}
# Exported twice under one number, with another amount: nobody can tell which one is right.
DUPLICATE, DUPLICATE_COMES_AFTER = "1200", "1404"


def good_order(position: int) -> dict[str, str]:
    region = REGIONS[position % len(REGIONS)]
    turn = position // len(REGIONS)
    number = FIRST_NUMBER + position
    customer, email = person(region, turn)
    cents = 499 + position * 7919 % 250_000
    return {
        "number": str(number),
        "placed_at": (OPENING + timedelta(minutes=11, seconds=17) * position).isoformat(),
        "customer": customer,
        "email": f"{email}@example.{('com', 'org')[number % 2]}",
        "amount": region.amounts[turn % len(region.amounts)](cents),
        "currency": region.currency,
        "items": "; ".join(items(position)),
        "note": next((note for step, note in NOTES.items() if number % step == 0), ""),
    }


def person(region: Region, turn: int) -> tuple[str, str]:
    given, family = region.given.split(), region.family.split()
    given_name, given_email = given[turn % len(given)].split("|")
    family_name, family_email = family[turn % len(family)].split("|")
    return (
        region.join.format(given=given_name, family=family_name),
        f"{given_email}.{family_email}",
    )


def items(position: int) -> Iterator[str]:
    for step in range(1 + position % 3):
        yield f"{1 + (position + step) % 4} x {ITEMS[(position * 3 + step * 5) % len(ITEMS)]}"


def orders() -> Iterator[dict[str, str]]:
    for position in range(GOOD_LOOKING):
        order = good_order(position)
        yield order | DIRT.get(int(order["number"]), {})
        if order["number"] == DUPLICATE_COMES_AFTER:
            yield good_order(int(DUPLICATE) - FIRST_NUMBER) | {"amount": "77.70"}


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("orders.csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(orders())


if __name__ == "__main__":
    main()
