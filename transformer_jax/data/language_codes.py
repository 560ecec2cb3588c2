"""Codes of languages, as BCP 47 has them: 'fr', 'fra', 'FR' and 'fr-FR' begin with one language."""

from collections.abc import Collection

# Codes of three letters (ISO 639-2 and -3) of the languages that have one of two (ISO 639-1). A
# language that is most of a macrolanguage, as Mandarin is of Chinese, has the code of that.
_SHORT = dict(
    pair.split(':')
    for pair in """
    aar:aa abk:ab ave:ae afr:af aka:ak amh:am arg:an ara:ar arb:ar asm:as ava:av aym:ay ayr:ay
    aze:az azj:az bak:ba bel:be bul:bg bis:bi bam:bm ben:bn bod:bo tib:bo bre:br bos:bs cat:ca
    che:ce cha:ch cos:co cre:cr cwd:cr ces:cs cze:cs chu:cu chv:cv cym:cy wel:cy dan:da deu:de
    ger:de div:dv adp:dz dzo:dz ewe:ee ell:el gre:el eng:en epo:eo spa:es ekk:et est:et baq:eu
    eus:eu fas:fa per:fa pes:fa fuc:ff ful:ff fin:fi fij:fj fao:fo fra:fr fre:fr fry:fy gle:ga
    gla:gd glg:gl grn:gn gug:gn guj:gu prp:gu glv:gv hau:ha heb:he hin:hi hmo:ho hrv:hr scr:hr
    hat:ht hun:hu arm:hy hye:hy her:hz ina:ia ind:id ile:ie ibo:ig iii:ii esk:ik ipk:ik ido:io
    ice:is isl:is ita:it ike:iu iku:iu jpn:ja jav:jv geo:ka kat:ka kng:kg kon:kg kik:ki kua:kj
    kaz:kk kal:kl khm:km kan:kn kor:ko kau:kr knc:kr kas:ks kmr:ku kur:ku kom:kv kpv:kv cor:kw
    kir:ky lat:la ltz:lb lug:lg lim:li lin:ln lao:lo lit:lt lub:lu lav:lv lvs:lv mlg:mg plt:mg
    mah:mh mao:mi mri:mi mac:mk mkd:mk mal:ml drh:mn khk:mn mon:mn mar:mr may:ms msa:ms zsm:ms
    mlt:mt bur:my mya:my nau:na nob:nb nde:nd nep:ne npi:ne ndo:ng dut:nl nld:nl nno:nn nor:no
    nbl:nr nav:nv nya:ny oci:oc ojg:oj oji:oj gaz:om orm:om ori:or ory:or oss:os pan:pa pli:pi
    pol:pl pbu:ps pus:ps por:pt que:qu quz:qu roh:rm run:rn mol:ro ron:ro rum:ro rus:ru kin:rw
    cls:sa san:sa src:sc srd:sc snd:sd sme:se sag:sg sin:si slk:sk slo:sk slv:sl smo:sm sna:sn
    som:so alb:sq als:sq sqi:sq scc:sr srp:sr ssw:ss sot:st sun:su swe:sv swa:sw swh:sw tam:ta
    tel:te tgk:tg tha:th tir:ti tuk:tk tsn:tn ton:to tur:tr tso:ts tat:tt twi:tw tah:ty uig:ug
    ukr:uk urd:ur uzb:uz uzn:uz ven:ve vie:vi vol:vo wln:wa wol:wo xho:xh ydd:yi yid:yi yor:yo
    zha:za zyb:za chi:zh cmn:zh zho:zh zul:zu
""".split()
)
_KNOWN = frozenset(_SHORT.values())
# Regions that stand for a script.
_SCRIPTS = {
    'zh-CN': 'zh-Hans',
    'zh-SG': 'zh-Hans',
    'zh-TW': 'zh-Hant',
    'zh-HK': 'zh-Hant',
    'zh-MO': 'zh-Hant',
}


def canonical(code: str) -> str:
    """Return a code as BCP 47 writes it: 'fra' becomes 'fr', 'cmn_hans' 'zh-Hans', 'PT_br' 'pt-BR'.

    Args:
      code: parts with '-' or '_' between them; the first is the language.
    """
    language, *others = code.lower().replace('_', '-').split('-')
    parts = [_SHORT.get(language, language)]
    for part in others:
        if len(part) == 4:
            part = part.title()
        elif len(part) == 2:
            part = part.upper()
        parts.append(part)
    return '-'.join(parts)


def language_of(code: str) -> str:
    """Return the language of a code, in lower case and of two letters if it has such a code."""
    return canonical(code).partition('-')[0]


def is_known(code: str) -> bool:
    """Return whether the language of a code is one of ISO 639-1."""
    return language_of(code) in _KNOWN


def find(asked: str, codes: Collection[str]) -> str | None:
    """Return the one of `codes` that a code names; None if there is none, or more than one.

    A code names itself in any spelling, otherwise what is left without its last parts: 'fr-FR'
    names 'fr'. A language alone names the only one of its codes: 'pt' names 'pt-BR'.
    """
    spelt = asked.lower().replace('_', '-')
    for code in codes:
        if code.lower().replace('_', '-') == spelt:
            return code
    by_name = {canonical(code): code for code in reversed([*codes])}
    wanted = canonical(asked)
    wanted = _SCRIPTS.get(wanted, wanted) if wanted not in by_name else wanted
    parts = wanted.split('-')
    for end in range(len(parts), 0, -1):
        if found := by_name.get('-'.join(parts[:end])):
            return found
    of_language = [code for name, code in by_name.items() if language_of(name) == wanted]
    return of_language[0] if len(of_language) == 1 else None
